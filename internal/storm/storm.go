//go:build linux

// Package storm makes many file events at once, for tests and measurements of watchers: processes create, write, rename
// and remove files in new nested directories, and rename some of these while they are filled. It imports nothing of
// this module.
package storm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processes is how many work at once.
const Processes = 4

const env = "NSRUN_STORM"

// Helper has to be called first by a program that calls Start, which starts it again: it
// returns if this is no such process.
func Helper() {
	if os.Getenv(env) == "" {
		return
	}
	if err := helper(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func helper(args []string) error {
	if len(args) != 4 {
		return errors.New("wants four arguments")
	}
	var n [3]int
	for i, a := range args[1:] {
		var err error
		if n[i], err = strconv.Atoi(a); err != nil {
			return err
		}
	}
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	// It begins when standard input ends.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return work(n[0], n[1], n[2])
}

// work makes so many files in so many directories below the current one, where others with other numbers do the same.
func work(number, dirs, files int) error {
	const deep = 8
	per := files / dirs
	path, before := "", ""
	for d := range dirs {
		if d%deep == 0 {
			path = fmt.Sprintf("p%d-%d", number, d)
		} else {
			path += fmt.Sprintf("/d%d", d)
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		for f := range per {
			name := path + "/f" + strconv.Itoa(f)
			if err := write(name); err != nil {
				return err
			}
			var err error
			switch f % 8 {
			case 0, 1: // renamed where it is
				err = unix.Rename(name, path+"/r"+strconv.Itoa(f))
			case 2: // to another directory
				if before != "" {
					err = unix.Rename(name, before+"/m"+strconv.Itoa(d)+"-"+strconv.Itoa(f))
				}
			case 3, 4: // removed
				err = unix.Unlink(name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if f == per/2 && d%5 == 0 { // the directory is renamed while it is filled
				if err := os.Rename(path, path+"x"); err != nil {
					return err
				}
				path += "x"
			}
		}
		before = path
	}
	return nil
}

func write(name string) error {
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = unix.Write(fd, []byte("some content\n"))
	return errors.Join(err, unix.Close(fd))
}

// A Storm is one that is ready to begin.
type Storm struct {
	cmds  []*exec.Cmd
	gates []io.Closer
}

// Start starts the processes, which wait for Run: for that many files in that many directories below dir.
func Start(dir string, dirs, files int) (*Storm, error) {
	s := &Storm{}
	for n := range Processes {
		c := exec.Command("/proc/self/exe", dir, strconv.Itoa(n), strconv.Itoa(dirs/Processes), strconv.Itoa(files/Processes))
		c.Env = append(os.Environ(), env+"=1")
		c.Stderr = os.Stderr
		gate, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return nil, errors.Join(err, s.Run())
		}
		s.cmds, s.gates = append(s.cmds, c), append(s.gates, gate)
	}
	return s, nil
}

// Run lets them begin, and waits for their end.
func (s *Storm) Run() error {
	var errs []error
	for _, g := range s.gates {
		errs = append(errs, g.Close())
	}
	for _, c := range s.cmds {
		errs = append(errs, c.Wait())
	}
	return errors.Join(errs...)
}
