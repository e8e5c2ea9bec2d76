package credential

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

// Rule is one credential. The zero Rule is invalid.
type Rule struct {
	// Host is the host that gets the secret: a name in lower case, without a dot at its end, or an address.
	Host string
	// Port is the TCP port of the host, with TLS. Zero: 443.
	Port uint16
	// Env is the environment variable of this process that holds the secret. File is the file that holds it: an
	// absolute path, or one that begins with "~/"; white space at the end of the file is ignored. Exactly one of
	// Env, File and Git is set.
	Env, File string
	// Git uses the user and password that `git credential fill` returns for the host (git-credential(1)). Only
	// git's own requests are then passed on. It excludes Env, File, and the fields below. False: Env or File has
	// the secret.
	Git bool
	// Header is the header whose value is the secret. Empty: Authorization, with "Bearer " before the secret, or by
	// User.
	Header string
	// User sends the secret as this user's password (Authorization: Basic, RFC 7617). Empty: see Header.
	User string
	// URL is another variable of the command that gets the gateway's address, optionally with a path to append, as
	// in "API_BASE_URL/v1". Empty: only the variable that Variable names.
	URL string
}

// Error is a mistake in the text of a Rule.
type Error struct {
	Text string
	Err  error
}

func (e *Error) Error() string { return escape.Quote(e.Text) + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Parse reads a Rule: HOST[:PORT]=env:NAME or HOST[:PORT]=file:PATH, and behind that, in any order, ",header=NAME",
// ",user=NAME" and ",url=VARIABLE[/PATH]"; or git:HOST[:PORT]. An error is an *Error.
func Parse(text string) (Rule, error) {
	r, err := parse(text)
	if err != nil {
		return Rule{}, &Error{text, err}
	}
	return r, nil
}

func parse(text string) (r Rule, err error) {
	if host, ok := strings.CutPrefix(text, gitPrefix); ok && !strings.Contains(text, "=") {
		r.Git = true
		r.Host, r.Port, err = parseHost(host)
		return r, err
	}
	host, rest, ok := strings.Cut(text, "=")
	if !ok {
		return r, errors.New("not HOST=env:NAME, HOST=file:PATH or git:HOST")
	}
	if r.Host, r.Port, err = parseHost(host); err != nil {
		return r, err
	}
	for {
		i := strings.LastIndexByte(rest, ',')
		if i < 0 {
			break
		}
		name, value, _ := strings.Cut(rest[i+1:], "=")
		var to *string
		switch name {
		case "header":
			to = &r.Header
		case "user":
			to = &r.User
		case "url":
			to = &r.URL
		}
		if to == nil {
			break // a comma in a path
		}
		if *to != "" || value == "" {
			return r, errors.New(name + " is given twice, or is empty")
		}
		*to, rest = value, rest[:i]
	}
	switch kind, value, _ := strings.Cut(rest, ":"); {
	case value == "" || kind != "env" && kind != "file":
		return r, errors.New("a secret is env:NAME (a variable) or file:PATH")
	case kind == "env":
		r.Env = value
	default:
		r.File = value
	}
	return r, r.Check()
}

// gitPrefix begins the text of a Rule for git.
const gitPrefix = "git:"

// Check returns an error if the Rule is invalid.
func (r *Rule) Check() error {
	if host, port, err := parseHost(r.address()); err != nil || host != r.Host || port != r.Port {
		return fmt.Errorf("%s is not a host", escape.Quote(r.Host))
	}
	name, _, _ := strings.Cut(r.URL, "/")
	switch {
	case r.Git:
		if *r != (Rule{Host: r.Host, Port: r.Port, Git: true}) {
			return errors.New("git: takes a host and nothing else")
		}
	case (r.Env == "") == (r.File == ""):
		return errors.New("a secret comes from a variable, or from a file")
	case r.Env != "" && !isVariable(r.Env):
		return fmt.Errorf("%s is not the name of a variable", escape.Quote(r.Env))
	case r.File != "" && !strings.HasPrefix(r.File, "/") && !strings.HasPrefix(r.File, "~/"):
		return errors.New("the path of a file is absolute, or begins with ~/")
	case r.Header != "" && r.User != "":
		return errors.New("user= needs the header Authorization")
	case r.Header != "" && !isToken(r.Header):
		return fmt.Errorf("%s is not the name of a header", escape.Quote(r.Header))
	case r.Header != "" && isReserved(r.Header):
		return fmt.Errorf("the header %s cannot contain a secret", escape.Quote(r.Header))
	case strings.ContainsAny(r.User, ":\x00\r\n") || !isText(r.User):
		return fmt.Errorf("%s is not the name of a user", escape.Quote(r.User))
	case r.URL != "" && (!isVariable(name) || !isText(r.URL) || strings.Contains(r.URL, " ")):
		return fmt.Errorf("%s is not the name of a variable, and a path", escape.Quote(r.URL))
	}
	return nil
}

// address returns the host and the port as in the text of a Rule.
func (r *Rule) address() string {
	host := r.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.Port != 0 {
		host += ":" + strconv.Itoa(int(r.Port))
	}
	return host
}

// String returns the text of a Rule, as Parse reads it.
func (r Rule) String() string {
	if r.Git {
		return gitPrefix + r.address()
	}
	text := r.address() + "=env:" + r.Env
	if r.Env == "" {
		text = r.address() + "=file:" + r.File
	}
	for _, o := range [...]struct{ name, value string }{{"header", r.Header}, {"user", r.User}, {"url", r.URL}} {
		if o.value != "" {
			text += "," + o.name + "=" + o.value
		}
	}
	return text
}

// Name returns the host, with the port if that is not 443.
func (r *Rule) Name() string {
	if r.Port == 443 {
		other := *r
		other.Port = 0
		return other.address()
	}
	return r.address()
}

// Variable returns the name of the command's variable that holds the gateway's address:
// NSRUN_CREDENTIAL_API_EXAMPLE_COM_URL for api.example.com.
func (r *Rule) Variable() string {
	name := []byte(strings.ToUpper(r.Name()))
	for i, c := range name {
		if !('A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			name[i] = '_'
		}
	}
	return "NSRUN_CREDENTIAL_" + strings.Trim(string(name), "_") + "_URL"
}

// HeaderName returns the name of the header that contains the secret.
func (r *Rule) HeaderName() string {
	if r.Header != "" {
		return r.Header
	}
	return "Authorization"
}

// Route is a Rule with a function that returns its secret.
type Route struct {
	Rule Rule
	// Secret returns the secret. A gateway may call it for each request, from several goroutines. For git it
	// returns the user and the password with a colon between them.
	Secret func(ctx context.Context) (string, error)
}

// parseHost reads HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT.
func parseHost(text string) (host string, port uint16, err error) {
	fail := func() (string, uint16, error) {
		return "", 0, fmt.Errorf("%s is not a host: a name or an address, and maybe a port", escape.Quote(text))
	}
	host, number, hasPort := strings.Cut(text, ":")
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if host, number, ok = strings.Cut(inner, "]"); !ok {
			return fail()
		}
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || a.String() != host || a.Zone() != "" {
			return fail()
		}
		if number, hasPort = strings.CutPrefix(number, ":"); !hasPort && number != "" {
			return fail()
		}
	} else if !isHostName(host) {
		return fail()
	}
	if hasPort {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 || number[0] == '0' {
			return fail()
		}
		port = uint16(n)
	}
	return host, port, nil
}

// isHostName reports whether s is a name in lower case, or an address of IPv4.
func isHostName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || label[0] == '-' {
			return false
		}
	}
	return true
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != ""
}

// isToken reports whether s can be the name of a header (RFC 9110).
func isToken(s string) bool {
	return s != "" && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// isReserved reports whether a header decides where a request ends, or where it goes.
func isReserved(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "transfer-encoding", "connection", "upgrade", "trailer", "te", "expect", "keep-alive",
		"proxy-connection", "proxy-authorization", "accept-encoding":
		return true
	}
	return false
}

func isText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// CheckSecret returns an error if the secret cannot be sent in a header: if it is empty, or has characters that would
// end the header.
func CheckSecret(secret string) error {
	switch {
	case secret == "":
		return errors.New("the secret is empty")
	case !isText(secret):
		return errors.New("the secret contains characters that a header cannot contain")
	}
	return nil
}
