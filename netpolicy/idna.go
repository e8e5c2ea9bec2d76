package netpolicy

import (
	"errors"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/nsrun/nsrun/internal/escape"
)

// toASCII returns the form in which the DNS knows a name with non-ASCII letters. It maps upper case, full-width forms
// and dots as browsers do.
func toASCII(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", errors.New("the name is not UTF-8")
	}
	s, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "", errors.New("this is not a valid host name: " + escape.Quote(err.Error()))
	}
	return s, nil
}
