package harmless

import (
	"net/netip"
	"slices"
	"strings"
)

// A form is what a value has to look like.
type form uint8

const (
	yesNo  form = iota // true or false
	number             // decimal
	word               // one of a list of words
	link               // a URL without a user, a query or a fragment
	host               // a name or address, with or without a port
	hosts              // some of those, with * for any part, divided by commas, bars or spaces
	file               // an absolute path
	heap               // options of a JVM about its memory
	name               // a short name
	names              // some of those, with * for any, divided by commas
)

// A key is one that is let through, if its value has the form.
type key struct {
	name  string
	form  form
	words string // of form word, divided by spaces
}

// find returns the key of a name, nil where it is not let through.
func find(keys []key, name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// fits reports whether a value has the form.
func (k *key) fits(value string) bool {
	switch k.form {
	case yesNo:
		return value == "true" || value == "false"
	case number:
		return value != "" && len(value) <= 9 && only(value, digits)
	case word:
		return slices.Contains(strings.Fields(k.words), value)
	case link:
		return isLink(value)
	case host:
		return isHost(value)
	case hosts:
		return isHosts(value)
	case file:
		return strings.HasPrefix(value, "/") && isPath(value)
	case heap:
		return isHeap(value)
	case name:
		return value != "" && len(value) <= 64 && only(value, letters+digits+"._- ") && plain(value, " ")
	case names:
		return value != "" && len(value) <= 200 && only(value, letters+digits+"._-*!,: ") && plain(value, ",")
	}
	return false
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func only(s, set string) bool { return strings.Trim(s, set) == "" }

// isHost allows what names and addresses are made of. Names that look like a token are not hosts.
func isHost(s string) bool {
	domain, port, ported := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		a, err := netip.ParseAddr(s[1:end])
		if err != nil || a.Zone() != "" {
			return false
		}
		domain, port, ported = "ip", strings.TrimPrefix(s[end+1:], ":"), strings.HasPrefix(s[end+1:], ":")
		if !ported && s[end+1:] != "" {
			return false
		}
	}
	if ported && (port == "" || len(port) > 5 || !only(port, digits)) {
		return false
	}
	return domain != "" && len(domain) <= 253 && only(domain, letters+digits+".-_") && plain(domain, ".")
}

func isHosts(s string) bool {
	list := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '|' || r == ' ' })
	for _, name := range list {
		name = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(name, "*"), "*"), ".")
		if name != "" && !isHost(name) && !isRange(name) {
			return false
		}
	}
	return len(list) > 0
}

func isRange(s string) bool {
	_, err := netip.ParsePrefix(s)
	if err != nil {
		_, err = netip.ParseAddr(s)
	}
	return err == nil && !strings.Contains(s, "%")
}

// isLink allows http and https with a host and a plain path: a user, a query and a fragment can be secrets, and so can
// a variable that programs expand.
func isLink(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	if !ok || len(s) > 500 {
		return false
	}
	name, path, _ := strings.Cut(rest, "/")
	return isHost(name) && isPath("/"+path)
}

func isPath(s string) bool {
	return len(s) <= 500 && only(s, letters+digits+"/._-+@~:") && !strings.Contains(s, "..") && plain(s, "/")
}

// plain reports whether no part of a name looks like a token: long, and of letters and digits. Some registries have
// tokens in the paths of their URLs.
func plain(s, divider string) bool {
	for part := range strings.SplitSeq(s, divider) {
		run, digit, letter, all, allDigits := 0, 0, 0, 0, 0
		for _, r := range part + "-" {
			switch {
			case r >= '0' && r <= '9':
				run, digit, all, allDigits = run+1, digit+1, all+1, allDigits+1
				continue
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
				run, letter, all = run+1, letter+1, all+1
				continue
			}
			if run >= 16 && (digit >= 2 && letter > 0 || run >= 28) {
				return false
			}
			run, digit, letter = 0, 0, 0
		}
		if len(part) > 64 || all >= 20 && allDigits >= 6 {
			return false
		}
	}
	return true
}

// isHeap allows sizes of memory, and of collectors what is on or off.
func isHeap(s string) bool {
	for option := range strings.FieldsSeq(s) {
		size, ok := "", false
		for _, begin := range [...]string{"-Xmx", "-Xms", "-Xss", "-XX:MaxMetaspaceSize=", "-XX:MaxPermSize="} {
			if rest, has := strings.CutPrefix(option, begin); has {
				size, ok = rest, true
			}
		}
		if ok {
			digitsOf := strings.TrimRight(size, "kKmMgGtT")
			if digitsOf == "" || len(digitsOf) > 9 || len(size)-len(digitsOf) > 1 || !only(digitsOf, digits) {
				return false
			}
			continue
		}
		switch option {
		case "-Dfile.encoding=UTF-8", "-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+HeapDumpOnOutOfMemoryError":
		default:
			return false
		}
	}
	return strings.TrimSpace(s) != ""
}
