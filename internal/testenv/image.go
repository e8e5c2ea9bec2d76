//go:build linux

package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Image mounts a new file system of 64 MB until the test ends, and returns its directory. mkfs is a command that makes
// the file system in a file, whose name is added. Where that is not possible, the test is skipped for want of feature.
func Image(t testing.TB, feature string, mkfs ...string) string {
	t.Helper()
	dir := Dir(t)
	file, at := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	script := `img=$1; at=$2; shift 2; truncate -s 64M "$img"; PATH=$PATH:/sbin:/usr/sbin; "$@" "$img"; mkdir "$at"; mount -o loop "$img" "$at"`
	if out, err := exec.Command("sh", append([]string{"-euc", script, "sh", file, at}, mkfs...)...).CombinedOutput(); err != nil {
		Skip(t, feature, string(out))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(at, 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// Untyped is a file system whose directories do not say of what type their entries are.
func Untyped(t testing.TB) string {
	t.Helper()
	return Image(t, "ext4 in a file", "mke2fs", "-q", "-t", "ext4", "-O", "^filetype")
}
