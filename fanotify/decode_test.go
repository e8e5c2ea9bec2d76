//go:build linux

package fanotify

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// FuzzDecode: whatever is read, decoding ends, takes something each time, and returns
// parts of what it was given.
func FuzzDecode(f *testing.F) {
	event := binary.NativeEndian.AppendUint32(nil, metadataSize+infoSize+8+4)
	event = append(event, unix.FANOTIFY_METADATA_VERSION, 0)
	event = binary.NativeEndian.AppendUint16(event, metadataSize)
	event = binary.NativeEndian.AppendUint64(event, unix.FAN_CREATE)
	event = append(event, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0)
	event = append(event, unix.FAN_EVENT_INFO_TYPE_DFID_NAME, 0)
	event = binary.NativeEndian.AppendUint16(event, infoSize+8+4)
	event = append(event, "12345678"...)
	event = binary.NativeEndian.AppendUint32(event, 8)
	event = binary.NativeEndian.AppendUint32(event, 1)
	event = append(event, "handle..abc\x00"...)
	r, rest, err := decode(event)
	if err != nil || len(rest) != 0 || string(r.name) != "abc" || !bytes.HasSuffix(r.dir, []byte("handle..")) || r.pid != 7 || r.mask != unix.FAN_CREATE {
		f.Fatalf("%+v %d %v", r, len(rest), err)
	}
	f.Add(event)
	f.Add(append(event, event...))
	f.Add(event[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			r, rest, err := decode(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("nothing was taken")
			}
			for _, key := range [][]byte{r.dir, r.dir2, r.child} {
				if len(key) != 0 && len(key) < 16 {
					t.Fatalf("the key %x is too short", key)
				}
				if len(key) != 0 {
					if h := splitHandle(key[8:]); h.Size() != len(key)-16 {
						t.Fatal("the handle has another size")
					}
				}
			}
			b = rest
		}
	})
}

// FuzzRenamedFrom: the text of fsnotify's events says what a name was, whatever the names.
func FuzzRenamedFrom(f *testing.F) {
	for _, a := range hostile {
		f.Add(a, "x")
		f.Add("y", a)
	}
	f.Fuzz(func(t *testing.T, from, name string) {
		// As fsnotify.Event.String has it.
		text := strconv.Quote(name) + " ← " + strconv.Quote(from)
		if got := cutFrom("CREATE        " + text); got != from {
			t.Fatalf("%q: %q, want %q", text, got, from)
		}
		if got := renamedFrom(fsnotify.Event{Name: name, Op: fsnotify.Create}); got != "" {
			t.Fatalf("an event without an old name: %q", got)
		}
	})
}

// FuzzSplit: only what is below a descriptor in /proc is.
func FuzzSplit(f *testing.F) {
	f.Add("/proc/self/fd/7/a\nb")
	f.Add("/proc/self/fd/7")
	f.Add("/proc/self/fd/-1/x")
	f.Fuzz(func(t *testing.T, path string) {
		fd, name, ok := split(path)
		if ok && name != "" && sys.ProcPath(fd)+"/"+name != path && fd >= 0 && path[len("/proc/self/fd/")] > '0' {
			t.Fatalf("%q: %d %q", path, fd, name)
		}
	})
}

func TestBelow(t *testing.T) {
	for _, test := range []struct {
		path, dir, rel string
		ok             bool
	}{
		{"/a/b", "/a", "b", true}, {"/a", "/a", ".", true}, {"/ab", "/a", "", false}, {"/a/b/c", "/", "a/b/c", true},
		{"/", "/", ".", true}, {"/b", "/a", "", false},
	} {
		rel, ok := below(test.path, test.dir)
		if ok != test.ok || ok && rel != test.rel {
			t.Errorf("%s below %s: %q %v", test.path, test.dir, rel, ok)
		}
	}
}

func TestOpText(t *testing.T) {
	for op := Created; op <= Attributes; op++ {
		b, _ := op.MarshalText()
		var back Op
		if err := back.UnmarshalText(b); err != nil || back != op {
			t.Errorf("%s: %v %v", b, back, err)
		}
	}
	for _, e := range []Engine{Auto, Fanotify, Inotify} {
		b, _ := e.MarshalText()
		var back Engine
		if err := back.UnmarshalText(b); err != nil || back != e {
			t.Errorf("%s: %v %v", b, back, err)
		}
	}
	var e Engine
	if e.UnmarshalText([]byte("x\n")) == nil {
		t.Error("x is an engine")
	}
}
