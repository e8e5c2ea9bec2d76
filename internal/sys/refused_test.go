//go:build linux

package sys

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestChmodRefused: a file that is open for its place alone gets its mode where a filter refuses fchmodat2(2).
func TestChmodRefused(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES} {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and the thread ends with its filter
			if err := refuseHere(unix.SYS_FCHMODAT2, errno); err != nil {
				done <- err
				return
			}
			done <- Chmod(fd, 0o640)
		}()
		if err := <-done; err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		_ = unix.Close(fd)
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("%v: %v, %v", errno, st.Mode(), err)
		}
	}
}

// refuseHere has this thread's calls of one number fail.
func refuseHere(nr uint32, errno unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// TestCopyRefused: data is copied, and permissions of a file are asked for, where a filter refuses copy_file_range(2)
// and faccessat2(2).
func TestCopyRefused(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES} {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		if err := os.WriteFile(src, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and the thread ends with its filter
			for _, nr := range [...]uint32{unix.SYS_COPY_FILE_RANGE, unix.SYS_FACCESSAT2, unix.SYS_SENDFILE} {
				if err := refuseHere(nr, errno); err != nil {
					done <- err
					return
				}
			}
			done <- copyAndAsk(dst, src)
		}()
		if err := <-done; err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		if got, err := os.ReadFile(dst); string(got) != "content" {
			t.Errorf("%v: %q, %v", errno, got, err)
		}
	}
}

func copyAndAsk(dst, src string) error {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := CopyData(context.Background(), to, from); err != nil {
		return err
	}
	if err := Access(unix.AT_FDCWD, dst+"/missing", unix.R_OK); err != unix.ENOTDIR {
		return fmt.Errorf("access: %v", err)
	}
	return Access(unix.AT_FDCWD, dst, unix.R_OK|unix.W_OK)
}
