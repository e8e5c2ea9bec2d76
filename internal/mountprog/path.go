//go:build linux

package mountprog

import (
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// pathMax is PATH_MAX, with the final zero.
const pathMax = 4096

// relative is target below the root, without empty and "." elements. ".." stays: only the kernel knows where it leads
// after a link.
func relative(target string) string {
	for target != "" && target[0] == '/' {
		target = target[1:]
	}
	if plain(target) {
		return target
	}
	parts := strings.Split(target, "/")
	keep := parts[:0]
	for _, p := range parts {
		if p != "" && p != "." {
			keep = append(keep, p)
		}
	}
	return strings.Join(keep, "/")
}

func plain(p string) bool {
	begin := 0
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if i == begin && p != "" || i == begin+1 && p[begin] == '.' {
			return false
		}
		begin = i + 1
	}
	return true
}

type tooComplex struct{}

func (tooComplex) Error() string { return "too complex to be compiled without allocating" }

// simple reports whether p is valid and can be compiled without allocating.
func simple(p mounts.Plan) bool {
	for i := range p {
		m := &p[i]
		if !absolute(m.Target) {
			return false
		}
		rel := m.Target[1:]
		switch m.Kind {
		case mounts.KindBind:
			if !absolute(m.Source) {
				return false
			}
		case mounts.KindTmpfs, mounts.KindDir, mounts.KindChmod, mounts.KindMqueue:
		case mounts.KindProc, mounts.KindDev:
			if m.Source != "" && !absolute(m.Source) {
				return false
			}
		case mounts.KindRemount:
			if rel != "" {
				return false
			}
		case mounts.KindSymlink:
			if rel == "" || m.Source == "" || len(m.Source) >= pathMax {
				return false
			}
		default:
			return false
		}
		if !plain(rel) {
			return false
		}
	}
	return true
}

func absolute(path string) bool { return path != "" && path[0] == '/' && len(path) < pathMax }
