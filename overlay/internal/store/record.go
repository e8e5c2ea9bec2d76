//go:build linux

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/plainjson"
)

// A Place is a path in one of the roots.
type Place struct {
	Root int
	Path string // relative
}

// CheckPlace refuses what is not a path in one of that many roots.
func CheckPlace(root int, p string, roots int) error {
	if root < 0 || root >= roots {
		return fmt.Errorf("no root number %d", root)
	}
	if p == "" || p[0] == '/' || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("not a path in a root: %q", p)
	}
	return nil
}

var (
	errCut  = errors.New("the file is cut short")
	errMore = errors.New("something follows the data")
)

// StrictJSON decodes one value. It is an error if anything follows it.
func StrictJSON(data []byte, to any) error {
	if json.Unmarshal(data, to) == nil {
		return nil
	}
	// A Decoder tells what is cut short, and takes longer.
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(to); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errCut
		}
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errMore
	}
	return nil
}

// Text is a string of any bytes. In JSON it is a string or, if it is not valid UTF-8, an object with base64.
type Text string

type rawBytes struct {
	Bytes []byte `json:"bytes"`
}

func (t Text) MarshalJSON() ([]byte, error) {
	if data, ok := plainjson.Quote(string(t)); ok {
		return data, nil
	}
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(rawBytes{[]byte(t)})
}

func (t *Text) UnmarshalJSON(data []byte) error {
	if s, ok := plainjson.Unquote(data); ok {
		*t = Text(s)
		return nil
	}
	if len(data) > 0 && data[0] == '{' {
		var b rawBytes
		if err := json.Unmarshal(data, &b); err != nil {
			return err
		}
		*t = Text(b.Bytes)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// RawTexts is list as it is stored; nil for nil.
func RawTexts(list []string) []Text {
	if list == nil {
		return nil
	}
	raw := make([]Text, len(list))
	for i, s := range list {
		raw[i] = Text(s)
	}
	return raw
}
