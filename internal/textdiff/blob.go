package textdiff

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/nsrun/nsrun/internal/githash"
)

// blobHash is what git calls the object with the content that read passes on.
func blobHash(size int64, read func(w io.Writer) error) (string, error) {
	h := githash.NewSHA1()
	fmt.Fprintf(h, "blob %d\x00", size)
	if err := read(h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum()), nil
}

var noHash = strings.Repeat("0", 2*20)
