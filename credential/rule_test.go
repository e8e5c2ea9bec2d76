//go:build linux

package credential

import (
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestParse(t *testing.T) {
	for text, want := range map[string]Rule{
		"api.example.com=env:TOKEN":             {Host: "api.example.com", Env: "TOKEN"},
		"api.example.com:8443=file:/a/b":        {Host: "api.example.com", Port: 8443, File: "/a/b"},
		"127.0.0.1:1=env:T":                     {Host: "127.0.0.1", Port: 1, Env: "T"},
		"[::1]=env:T":                           {Host: "::1", Env: "T"},
		"[::1]:443=env:T":                       {Host: "::1", Port: 443, Env: "T"},
		"h=file:~/a,b,header=X-Key,url=BASE/v1": {Host: "h", File: "~/a,b", Header: "X-Key", URL: "BASE/v1"},
		"h=env:T,user=me":                       {Host: "h", Env: "T", User: "me"},
		"h=file:/a,other=1":                     {Host: "h", File: "/a,other=1"},
		"git:github.com":                        {Host: "github.com", Git: true},
		"git:h:8443":                            {Host: "h", Port: 8443, Git: true},
		"h=file:/a=b":                           {Host: "h", File: "/a=b"},
		strings.Repeat("a", 63) + ".example=env:T,url=SOME_1": {Host: strings.Repeat("a", 63) + ".example", Env: "T", URL: "SOME_1"},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "not HOST=",
		"h":                                  "not HOST=",
		"h=":                                 "env:NAME",
		"h=T":                                "env:NAME",
		"h=env:":                             "env:NAME",
		"h=env:A-B":                          "not the name of a variable",
		"h=file:a":                           "absolute",
		"git:":                               "not a host",
		"git:*":                              "not a host",
		"git:h/path":                         "not a host",
		"git:h,url=A":                        "not a host",
		"git:h=env:T":                        "not a host",
		"h=cmd:/bin/x":                       "env:NAME",
		"=env:T":                             "not a host",
		"*.example.com=env:T":                "not a host",
		"https://h=env:T":                    "not a host",
		"h/path=env:T":                       "not a host",
		"H=env:T":                            "not a host",
		"h:0=env:T":                          "not a host",
		"h:099=env:T":                        "not a host",
		"h:65536=env:T":                      "not a host",
		"h..x=env:T":                         "not a host",
		"user@h=env:T":                       "not a host",
		"[::1%lo]=env:T":                     "not a host",
		"[127.0.0.1]=env:T":                  "not a host",
		"[::1]x=env:T":                       "not a host",
		"h=env:T,header=":                    "empty",
		"h=env:T,header=A,header=B":          "twice",
		"h=env:T,header=A B":                 "not the name of a header",
		"h=env:T,header=Content-Length":      "cannot contain a secret",
		"h=env:T,header=hOsT":                "cannot contain a secret",
		"h=env:T,header=X,user=me":           "needs the header Authorization",
		"h=env:T,user=a:b":                   "not the name of a user",
		"h=env:T,url=A B":                    "not the name of a variable",
		"h=env:T,url=A/\x1b":                 "not the name of a variable",
		"h=env:T,url=/v1":                    "not the name of a variable",
		strings.Repeat("a", 64) + "=env:T":   "not a host",
		"h=file:/a,url=A/b\nHOME=/elsewhere": "not the name of a variable",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

func TestVariable(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com=env:T":      "NSRUN_CREDENTIAL_API_EXAMPLE_COM_URL",
		"api.example.com:443=env:T":  "NSRUN_CREDENTIAL_API_EXAMPLE_COM_URL",
		"a-b.example.com:8443=env:T": "NSRUN_CREDENTIAL_A_B_EXAMPLE_COM_8443_URL",
		"[::1]:8443=env:T":           "NSRUN_CREDENTIAL_1__8443_URL",
	} {
		r, err := Parse(text)
		if got := r.Variable(); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func TestCheckSecret(t *testing.T) {
	for secret, ok := range map[string]bool{"a": true, "a b~": true, "": false, "a\nb": false, "a\r\nHost: b": false, "ä": false, "a\x00": false} {
		if err := CheckSecret(secret); (err == nil) != ok {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

// FuzzParse: a rule that was read is written as it was, and its parts cannot be taken for another header, variable or
// host.
func FuzzParse(f *testing.F) {
	f.Add("api.example.com:8443=file:~/a,b,header=X-Key,url=BASE/v1")
	f.Add("[::1]:443=env:T,user=me")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q: %+v, %+v, %v", text, r, again, err)
		}
		if strings.ContainsAny(r.Host+r.Env+r.Header+r.User+r.URL, "\x00\r\n") || strings.ContainsAny(r.Host, "/@*") || !isVariable(r.Variable()) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
