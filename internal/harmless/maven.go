package harmless

import "strings"

// mavenKeys are elements of Maven's settings.xml, by their paths.
var mavenKeys = []key{
	{"settings/offline", yesNo, ""}, {"settings/interactiveMode", yesNo, ""}, {"settings/localRepository", file, ""},
	{"settings/mirrors/mirror/id", name, ""}, {"settings/mirrors/mirror/name", name, ""}, {"settings/mirrors/mirror/url", link, ""},
	{"settings/mirrors/mirror/mirrorOf", names, ""}, {"settings/mirrors/mirror/blocked", yesNo, ""},
	{"settings/proxies/proxy/id", name, ""}, {"settings/proxies/proxy/active", yesNo, ""}, {"settings/proxies/proxy/protocol", word, "http https"},
	{"settings/proxies/proxy/host", host, ""}, {"settings/proxies/proxy/port", number, ""}, {"settings/proxies/proxy/nonProxyHosts", hosts, ""},
}

// mavenGroups are the elements around those. One of the last kind is left out as a whole where something in it is not
// let through: half of a mirror would be another one.
var mavenGroups = map[string]bool{
	"settings": false, "settings/mirrors": false, "settings/proxies": false, "settings/mirrors/mirror": true, "settings/proxies/proxy": true,
}

// maven reads settings.xml: elements, attributes of the first one, text and comments, and nothing else of XML. With
// anything else nothing is copied.
func maven(text string) string {
	p := xml{rest: strings.TrimSpace(strings.TrimPrefix(text, "\uFEFF"))}
	if strings.HasPrefix(p.rest, "<?xml") {
		_, after, ok := strings.Cut(p.rest, "?>")
		if !ok {
			return ""
		}
		p.rest = after
	}
	out, ok := p.element("")
	if !ok || strings.TrimSpace(p.skipComments()) != "" || p.kept == 0 {
		return ""
	}
	return out
}

// xml is what is left of a document.
type xml struct {
	rest string
	deep int
	kept int // how many elements with text were copied
}

// skipComments takes white space and comments, and returns what is left.
func (p *xml) skipComments() string {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t\n")
		if !strings.HasPrefix(p.rest, "<!--") {
			return p.rest
		}
		_, after, ok := strings.Cut(p.rest[4:], "-->")
		if !ok {
			return p.rest
		}
		p.rest = after
	}
}

// element takes an element, and returns what of it is copied. Not ok: it is not understood.
func (p *xml) element(above string) (out string, ok bool) {
	if p.deep++; p.deep > 40 {
		return "", false
	}
	defer func() { p.deep-- }()
	s := p.skipComments()
	end := strings.IndexByte(s, '>')
	if !strings.HasPrefix(s, "<") || end < 0 {
		return "", false
	}
	tag := s[1:end]
	p.rest = s[end+1:]
	tag, empty := strings.CutSuffix(tag, "/")
	tag, attributes, _ := strings.Cut(strings.TrimRight(tag, " \t\n"), " ")
	if tag, _, _ = strings.Cut(tag, "\n"); tag == "" || !only(tag, letters+digits+"._-") || attributes != "" && above != "" && !harmlessSpace(attributes) {
		return "", false
	}
	at := strings.TrimPrefix(above+"/"+tag, "/")
	if empty {
		return "", true
	}
	all, group := mavenGroups[at]
	complete, children := true, 0
	for {
		s = p.skipComments()
		if strings.HasPrefix(s, "</") {
			break
		}
		if !strings.HasPrefix(s, "<") {
			return p.text(at, tag, children)
		}
		kept := p.kept
		child, ok := p.element(at)
		if !ok {
			return "", false
		}
		children++
		complete = complete && p.kept > kept
		out += child
	}
	if !p.close(tag) {
		return "", false
	}
	if !group || out == "" || all && !complete {
		return "", true
	}
	return "<" + tag + ">\n" + out + "</" + tag + ">\n", true
}

// harmlessSpace reports whether attributes are none, or about white space.
func harmlessSpace(attributes string) bool {
	attributes = strings.TrimSpace(attributes)
	return attributes == "" || attributes == `xml:space="preserve"`
}

// text takes the text of an element that has nothing else.
func (p *xml) text(at, tag string, children int) (out string, ok bool) {
	text, after, found := strings.Cut(p.rest, "<")
	if !found || children > 0 || strings.ContainsAny(text, "&>") && find(mavenKeys, at) != nil {
		return "", false
	}
	p.rest = "<" + after
	if !p.close(tag) {
		return "", false
	}
	text = strings.TrimSpace(text)
	if k := find(mavenKeys, at); k != nil && k.fits(text) {
		p.kept++
		return "<" + tag + ">" + text + "</" + tag + ">\n", true
	}
	return "", true
}

func (p *xml) close(tag string) bool {
	s := p.skipComments()
	rest, ok := strings.CutPrefix(s, "</"+tag)
	if !ok {
		return false
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t\n"), ">")
	p.rest = rest
	return ok
}
