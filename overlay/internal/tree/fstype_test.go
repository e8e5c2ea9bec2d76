//go:build linux

package tree

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestIsUpper: which file systems hold the upper directory of an overlay.
func TestIsUpper(t *testing.T) {
	for _, tt := range []struct {
		typ        uint32
		upper, yes bool
	}{
		{unix.EXT4_SUPER_MAGIC, true, true},
		{unix.OVERLAYFS_SUPER_MAGIC, false, true},
		{unix.NFS_SUPER_MAGIC, false, true},
		{unix.MSDOS_SUPER_MAGIC, false, true},
		{unix.TMPFS_MAGIC, false, false},
		{0x12345678, false, false},
	} {
		if ok, sure := IsUpper(tt.typ); ok != tt.upper || sure != tt.yes {
			t.Errorf("%#x: %v, %v", tt.typ, ok, sure)
		}
	}
}

// TestDisk: a directory is still the one that it was if its device got another number, and only then.
func TestDisk(t *testing.T) {
	at := func(major, minor uint32, sec int64) unix.Statx_t {
		return unix.Statx_t{Mask: unix.STATX_BTIME, Dev_major: major, Dev_minor: minor, Btime: unix.StatxTimestamp{Sec: sec, Nsec: 7}}
	}
	nvme, loop := [2]int32{259<<8 | 2}, [2]int32{7<<8 | 0x2c | 0x100000} // 259:2 and 7:300
	uuid := [2]int32{-5, 77}
	was := diskOf(nvme, at(259, 2, 5))
	if was.Birth != 5e9+7 {
		t.Fatalf("%+v", was)
	}
	unknown := at(259, 2, 5)
	unknown.Mask = 0
	for _, tt := range []struct {
		name     string
		now, was Disk
		is       bool
	}{
		{"nothing changed", was, was, true},
		{"another number", diskOf(loop, at(7, 300, 5)), was, true},
		{"another directory", diskOf(loop, at(7, 300, 6)), was, false},
		{"recorded without a time", diskOf(loop, at(7, 300, 5)), Disk{ID: was.ID}, false},
		{"the file system has no times", diskOf(loop, unix.Statx_t{Dev_major: 7, Dev_minor: 300}), diskOf(nvme, unknown), false},
		{"a number of the file system's own", diskOf(uuid, at(259, 2, 5)), was, false},
		{"two of them", diskOf([2]int32{-5, 78}, at(259, 2, 5)), diskOf(uuid, at(259, 2, 5)), false},
		{"the other device's number in place of the own", diskOf(nvme, at(7, 300, 5)), diskOf(nvme, at(259, 3, 5)), true},
		{"not known before", diskOf(uuid, at(259, 2, 5)), Disk{}, true},
	} {
		if is := tt.now.Is(tt.was); is != tt.is {
			t.Errorf("%s: %v: %+v, %+v", tt.name, is, tt.now, tt.was)
		}
	}
}
