//go:build linux && !nsrun_image

package reexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"
)

// LauncherName is argv[0] of the image.
const LauncherName = "nsrun:launcher"

// InProcess makes this process clone sandboxes itself: it is small and has no
// secrets. The nsrun command sets it before anything else; it clones from its
// main thread only.
var InProcess bool

// Start executes the image with these descriptors, the first as descriptor 0, and nothing
// else of this process: no environment. arg is an argument, or empty.
func Start(files []*os.File, arg string, attr *syscall.SysProcAttr) (*os.Process, error) {
	return startIn(append([]string{inMemory}, imageDirs()...), files, arg, attr)
}

// startIn is Start with the image in one of these directories.
func startIn(dirs []string, files []*os.File, arg string, attr *syscall.SysProcAttr) (*os.Process, error) {
	argv := []string{LauncherName}
	if arg != "" {
		argv = append(argv, arg)
	}
	// In the new process descriptors are moved to numbers behind these, before the image is
	// executed by its own.
	above := 16
	for _, f := range files {
		above = max(above, int(f.Fd())+len(files)+4)
	}
	var refused error
	for _, dir := range dirs {
		image, err := imageFile(dir, above)
		if err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		var p *os.Process
		for try := 0; try < 100; try++ {
			p, err = os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(image.Fd())), argv, &os.ProcAttr{Env: []string{}, Files: files, Sys: attr})
			if !errors.Is(err, syscall.ETXTBSY) {
				break // else another thread, which is about to execute something, has a copy of the descriptor for writing
			}
		}
		_ = image.Close()
		if err == nil {
			return p, nil
		}
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		err = fmt.Errorf("execute the launcher's image in %s: %w", dir, err)
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
			return nil, err
		}
		refused = errors.Join(refused, err)
	}
	return nil, refused
}

// inMemory stands for a file in memory instead of one in a directory.
const inMemory = "memory"

// imageDirs are directories in which files can perhaps be executed if the kernel (vm.memfd_noexec) or a security module
// does not allow to execute files in memory.
func imageDirs() []string {
	dirs := []string{os.TempDir()}
	for _, name := range [...]string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"} {
		if dir := os.Getenv(name); filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return append(dirs, "/var/tmp", "/dev/shm")
}

// imageFile returns a file with the image that nobody can write to, and that has no name. Its descriptor is not smaller
// than above.
func imageFile(dir string, above int) (*os.File, error) {
	// A process that is forked meanwhile would have the descriptor for writing, until it
	// executes something: then the file could not be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := -1, error(nil)
	if dir == inMemory {
		fd, err = memFile()
	} else {
		fd, err = unnamed(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make the launcher's image in %s: %w", dir, err)
	}
	high, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, uintptr(above))
	_ = syscall.Close(fd)
	if e == syscall.EINVAL {
		e = syscall.EMFILE // the limit of open files does not allow that number
	}
	if e != 0 {
		return nil, fmt.Errorf("make the launcher's image in %s: %w", dir, e)
	}
	return os.NewFile(high, "image"), nil
}

// Numbers that package syscall does not have.
const (
	mfdCloexec  = 0x1
	mfdSealing  = 0x2
	mfdExec     = 0x10 // Linux 6.3
	addSeals    = 1033 // F_ADD_SEALS
	allSeals    = 0xf  // F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE
	unnamedFile = 0x400000
)

// memFile is a sealed file in memory.
func memFile() (int, error) {
	name := [...]byte{'n', 's', 'r', 'u', 'n', 0}
	fd, e := uintptr(0), syscall.EINVAL
	for _, flags := range [...]uintptr{mfdExec | mfdSealing | mfdCloexec, mfdSealing | mfdCloexec} {
		if e == syscall.EINVAL {
			fd, _, e = syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name)), flags, 0)
		}
	}
	if e != 0 {
		return -1, e
	}
	err := writeImage(int(fd))
	if err == nil {
		if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, allSeals); e != 0 {
			err = e
		}
	}
	if err != nil {
		_ = syscall.Close(int(fd))
	}
	return int(fd), err
}

// unnamed is a file without a name in a directory, open for reading.
func unnamed(dir string) (int, error) {
	fd, err := syscall.Open(dir, unnamedFile|syscall.O_DIRECTORY|syscall.O_RDWR|syscall.O_CLOEXEC, 0o500)
	if err != nil {
		// Not all file systems have that.
		f, cerr := os.CreateTemp(dir, ".nsrun-image-*")
		if cerr != nil {
			return -1, err
		}
		defer f.Close()
		if err := os.Remove(f.Name()); err != nil {
			return -1, err
		}
		if err := f.Chmod(0o500); err != nil {
			return -1, err
		}
		copied, _, e := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD_CLOEXEC, 0)
		if e != 0 {
			return -1, e
		}
		fd = int(copied)
		_ = f.Close()
	}
	defer syscall.Close(fd)
	if err := writeImage(fd); err != nil {
		return -1, err
	}
	return syscall.Open("/proc/self/fd/"+strconv.Itoa(fd), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
}

func writeImage(fd int) error {
	for off := 0; off < len(image); {
		n, err := syscall.Write(fd, unsafe.Slice(unsafe.StringData(image), len(image))[off:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}
