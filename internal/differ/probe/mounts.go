//go:build linux

package main

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts notes the mounts that can be seen, which are the topmost ones, and lists
// the files of those that belong to the sandbox alone or to the test.
func (f facts) mounts(root string, devices map[string]bool) {
	text, err := readProc("self/mountinfo")
	if err != nil {
		f.put("mounts", nil, err)
		return
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		end := 6
		var propagation []string
		for ; fields[end] != "-"; end++ {
			name, _, _ := strings.Cut(fields[end], ":")
			propagation = append(propagation, name)
		}
		id, _ := strconv.ParseUint(fields[0], 10, 64)
		target, within := unescape(fields[4]), unescape(fields[3])
		var stx unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &stx); err != nil {
			// What cannot be reached may be hidden or not: nobody can tell.
			continue
		}
		if stx.Mnt_id != id {
			continue
		}
		key := "mount." + target
		f[key] = fields[end+1] + " " + fields[5]
		f[key+" propagation"] = strings.Join(propagation, ",")
		f[key+" root"] = within
		f[key+" source"] = unescape(fields[end+2])
		f[key+" super"] = unescape(fields[end+3])
		own := !devices[fields[2]] && fields[end+1] != "proc" && fields[end+1] != "sysfs"
		ours := within == root || strings.HasPrefix(within, root+"/") || fields[end+2] == "fixture"
		if root != "" && (own || ours) {
			f.walk(target, 0, devOf(target))
		}
	}
}

// unescape undoes what the kernel does to blanks and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func devOf(name string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return 0
	}
	return st.Dev
}

// walk lists one file, and what is in it as long as it is the same file system.
func (f facts) walk(name string, depth int, dev uint64) {
	key := "file." + name
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		f.put(key, nil, err)
		return
	}
	text := fmt.Sprintf("%#o %d:%d", st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := os.Readlink(name)
		text += fmt.Sprintf(" -> %q %v", to, err)
	case unix.S_IFCHR, unix.S_IFBLK:
		const pts = 136 // a new one for each run
		if unix.Major(st.Rdev) == pts {
			text += fmt.Sprintf(" device %d:…", pts)
		} else {
			text += fmt.Sprintf(" device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		}
	case unix.S_IFREG:
		text += fmt.Sprintf(" size %d", st.Size)
		if st.Size < 200 {
			b, err := os.ReadFile(name)
			text += fmt.Sprintf(" %q", b)
			if err != nil {
				text += " unreadable"
			}
		}
	}
	f[key] = text
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Dev != dev || depth > 12 {
		return
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		f.put(key+" entries", nil, err)
	}
	for _, e := range entries {
		f.walk(path.Join(name, e.Name()), depth+1, dev)
	}
}
