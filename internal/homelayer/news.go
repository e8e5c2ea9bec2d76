//go:build linux

package homelayer

import (
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// toldName is the file in a layer with the paths that News has returned, each ended by a zero byte.
const toldName = "told"

const (
	mostTold   = 1 << 20 // bytes of that file
	mostLooked = 1000    // changes that are looked at
)

// News are the paths of changes that it has not returned before; when these are very many, it begins anew. caches, and
// what is in them, are not news. It does not look at everything where there is very much.
func News(path, home string, caches []string) (list []string, err error) {
	dir, err := openLayer(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := sys.OwnFile(dir, toldName, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path + "/" + toldName, Err: sys.Bare(err)}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostTold))
	if err == nil && len(text) == mostTold { // commands choose how long the names are, and must not silence later news
		text, err = nil, f.Truncate(0)
	}
	if err != nil {
		return nil, err
	}
	told := make(map[string]bool)
	for name := range strings.SplitSeq(string(text), "\x00") {
		told[name] = true
	}
	looked := 0
	w := changeWalk{
		whole: func(name string) bool { return slices.Contains(caches, name) },
		into: func(name string) bool {
			return slices.ContainsFunc(caches, func(cache string) bool { return strings.HasPrefix(cache, name+"/") })
		},
	}
	w.yield = func(c Change, err error) bool {
		if err == nil && !w.whole(strings.TrimSuffix(c.Path, "/")) && !told[c.Path] {
			list = append(list, c.Path)
		}
		looked++
		return looked < mostLooked
	}
	if err := w.layer(dir, home); err != nil || len(list) == 0 {
		return nil, err
	}
	_, err = f.WriteString(strings.Join(list, "\x00") + "\x00")
	return list, err
}
