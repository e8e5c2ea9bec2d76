//go:build linux

package bwrapmode

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
)

// The output for --info-fd and --json-status-fd.

// created is called when the namespaces exist, before they are set up.
func (r *run) created(pid int) error {
	ids, err := r.namespaces(pid)
	if err != nil {
		return err
	}
	for _, to := range [...]struct {
		fd                    bwrap.Opt[int]
		begin, separator, end string
		closeIt               bool
	}{
		{r.cfg.InfoFD, "{\n    ", ",\n    ", "\n}\n", true},
		{r.cfg.JSONStatusFD, "{ ", ", ", " }\n", false},
	} {
		if !to.fd.Set {
			continue
		}
		b := append([]byte(to.begin), `"child-pid": `...)
		b = strconv.AppendInt(b, int64(pid), 10)
		for _, id := range ids {
			b = append(append(append(b, to.separator...), '"'), id.name...)
			b = append(b, `-namespace": `...)
			b = strconv.AppendUint(b, id.inode, 10)
		}
		b = append(b, to.end...)
		if n, err := unix.Write(to.fd.Value, b); err != nil || n != len(b) {
			return &bwrap.Error{Text: "Write to info_fd", Err: err}
		}
		if to.closeIt {
			_ = unix.Close(to.fd.Value)
		}
	}
	if fd := r.block; fd.Set {
		// The reader of the information writes the id maps, and then to this descriptor.
		_, _ = unix.Read(fd.Value, make([]byte, 1))
		_ = unix.Close(fd.Value)
	}
	return nil
}

type namespaceID struct {
	name  string
	inode uint64
}

func (r *run) namespaces(pid int) (ids []namespaceID, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/ns"
	for _, n := range [...]struct {
		name  string
		isNew bool
	}{
		{"cgroup", r.cfg.UnshareCgroup || r.cfg.UnshareCgroupTry && haveCgroupNamespaces()}, {"ipc", r.cfg.UnshareIPC}, {"mnt", true},
		{"net", r.cfg.UnshareNet}, {"pid", r.cfg.UnsharePID}, {"uts", r.cfg.UnshareUTS},
	} {
		if !n.isNew {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(dir+"/"+n.name, &st); err != nil {
			return nil, &bwrap.Error{Text: "open " + dir + " failed", Err: err}
		}
		ids = append(ids, namespaceID{n.name, st.Ino})
	}
	return ids, nil
}

func exitJSON(status int) []byte {
	return append(strconv.AppendInt([]byte(`{ "exit-code": `), int64(status), 10), " }\n"...)
}
