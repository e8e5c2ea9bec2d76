package netpolicy

import (
	"errors"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// toASCII returns a name with other than ASCII letters as the DNS knows it. What
// browsers would look up is what is meant, so it maps as they do: upper case, full-width
// forms and dots.
func toASCII(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", errors.New("the name is not UTF-8")
	}
	s, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "", errors.New("this is not the name of a host in any language: " + quote(err.Error()))
	}
	return s, nil
}
