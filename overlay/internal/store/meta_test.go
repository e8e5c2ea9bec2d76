//go:build linux

package store

import (
	"path/filepath"
	"testing"
)

func FuzzDecodeMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"created":"2006-01-02T15:04:05Z","state":"kept","roots":[{"path":"/p","ino":1}]}`))
	f.Add([]byte(`{"version":1,"state":"committed","roots":[{"path":{"bytes":"L/8="}}],"settled":[{"root":0,"path":"a/b","lower":1}]}`))
	f.Add([]byte(`{"version":1,"roots":[{"path":"/p"}],"settled":[{"root":7,"path":"../x"}]}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMeta(data)
		if err != nil {
			return
		}
		for _, r := range m.Roots {
			if !filepath.IsAbs(string(r.Path)) || filepath.Clean(string(r.Path)) != string(r.Path) {
				t.Errorf("root %q", r.Path)
			}
		}
		for _, s := range m.Settled {
			if s.Root < 0 || s.Root >= len(m.Roots) || !filepath.IsLocal(string(s.Path)) {
				t.Errorf("settled %+v", s)
			}
		}
	})
}
