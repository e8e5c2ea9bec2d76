//go:build linux

package sys

import (
	"math"

	"golang.org/x/sys/unix"
)

// ReadFile reads a file, into room if that is large enough. Unlike os.ReadFile it does not ask the poller whether it
// can wait for the file, which takes more calls than reading a file in /proc.
func ReadFile(name string, room []byte) ([]byte, error) {
	fd, err := openRead(name)
	if err != nil {
		return nil, err
	}
	defer fd.Close()
	return fd.ReadAll(room, math.MaxInt)
}

// ReadAll reads a file to its end, or a little more than most bytes of it, into room if that is large enough.
func (f FD) ReadAll(room []byte, most int) ([]byte, error) {
	for have := 0; ; {
		k, err := f.Read(room[have:])
		if err != nil {
			return nil, err
		}
		if have += k; k == 0 || have > most {
			return room[:have], nil
		}
		if have == len(room) {
			room = append(room, make([]byte, len(room))...)
		}
	}
}

func openRead(name string) (FD, error) {
	var n int
	err := Retry(func() (err error) {
		n, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	return FD(n), err
}
