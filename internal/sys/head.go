//go:build linux

package sys

import "golang.org/x/sys/unix"

// Head returns the beginning of a file, as much as fits into room. Some files in /proc are as long as a process makes
// them: its command line, and what is known of its descriptors.
func Head(name string, room []byte) ([]byte, error) {
	var n int
	err := Retry(func() (err error) {
		n, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	fd := FD(n)
	defer fd.Close()
	have := 0
	for have < len(room) {
		k, err := fd.Read(room[have:])
		if err != nil || k == 0 {
			return room[:have], err
		}
		have += k
	}
	return room[:have], nil
}
