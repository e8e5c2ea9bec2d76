//go:build linux

package testenv

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	memoryEnv = "NSRUN_TEST_MEMORY" // set by the Makefile where the machine's own file system is tested in another run
	enough    = 8 << 20             // KiB of free memory: some packages are tested at once, with up to a gigabyte each
)

// inMemory calls do with a tmpfs at dir, for what do starts, if the environment asks for it and there is memory enough.
// A disk's file system costs a third of the processor time of tests. Otherwise, dir stays as it is.
func inMemory(dir string, do func() int) (code int, err error) {
	if os.Getenv(memoryEnv) == "" || noNamespaces() != nil || available() < enough || onTmpfs(dir) {
		return do(), nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // which ends with the goroutine, and with it its namespace
		if err = mountTmpfs(dir); err == nil {
			code = do()
		}
	}()
	<-done
	return code, err
}

// mountTmpfs gives this thread a mount namespace of its own, with a tmpfs at dir. All mounts in it are shared again, as
// on most hosts. It leaves dir as it is where a tmpfs takes no attributes of users (before Linux 6.6), because sessions
// of users would not be overlays there.
func mountTmpfs(dir string) error {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil { // else that would be the host's
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err != nil {
		return fmt.Errorf("a mount namespace for %s: %w", dir, err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("a tmpfs at %s: %w", dir, err)
	}
	if unix.Setxattr(dir, "user.test", []byte("y"), 0) != nil || unix.Removexattr(dir, "user.test") != nil {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

func onTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// available is how much memory can be used without swapping, in KiB, see proc_meminfo(5).
func available() (n int) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}
