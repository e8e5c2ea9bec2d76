package change_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/change"
)

// TestKind: every number is either a kind, which has a name that leads back to it, or is shown as a number.
func TestKind(t *testing.T) {
	for i := range 256 {
		k := change.Kind(i)
		text, err := k.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		back := change.Kind(255)
		err = back.UnmarshalText(text)
		if k.Valid() != (i >= 1 && i <= 4) || k.Valid() == strings.HasPrefix(k.String(), "kind(") || k.Valid() == (k.Letter() == '?') {
			t.Errorf("%d: valid %v, %q, %c", i, k.Valid(), k, k.Letter())
		}
		if ok := k.Valid() || k == 0; ok != (err == nil) || ok && back != k {
			t.Errorf("%d: %q is read as %d, %v", i, text, back, err)
		}
	}
}

// A kind is written by name in JSON, and by letter in lists.
func ExampleKind() {
	b, _ := json.Marshal([]change.Kind{change.Added, change.TypeChanged})
	fmt.Printf("%s %c\n", b, change.Modified.Letter())
	// Output: ["added","type"] M
}
