//go:build linux

package main

import (
	"errors"
	"flag"
	"strconv"

	nsrunlib "github.com/nsrun/nsrun"
)

func limitFlags(fs *flag.FlagSet, l *nsrunlib.Limits) {
	size := func(to *int64) func(string) error {
		return func(text string) (err error) {
			if *to, err = nsrunlib.ParseSize(text); err == nil && *to == 0 {
				err = errors.New("the limit must not be zero")
			}
			return err
		}
	}
	count := func(to *int) func(string) error {
		return func(text string) (err error) {
			if *to, err = strconv.Atoi(text); err != nil || *to < 1 {
				err = errors.New("not a number of at least 1")
			}
			return err
		}
	}
	fs.Func("memory", "kill the command and all its processes when they use more memory than `SIZE` (512M, 2G)", size(&l.Memory))
	fs.Func("swap", "with --memory, allow `SIZE` of swap, or max for no limit (default: none)", func(text string) error {
		if text == "max" {
			l.Swap = -1
			return nil
		}
		n, err := nsrunlib.ParseSize(text)
		l.Swap = n
		return err
	})
	fs.Func("pids", "allow at most `N` processes and threads", count(&l.PIDs))
	fs.Func("cpus", "allow the time of `N` processors, such as 1.5", func(text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if l.CPUs = f; err != nil || f <= 0 {
			return errors.New("not a number above zero")
		}
		return nil
	})
	fs.Func("nofile", "allow each process at most `N` open files", count(&l.OpenFiles))
	fs.Func("fsize", "allow no file to grow beyond `SIZE`", size(&l.FileSize))
	fs.Func("output", "kill the command when it writes more than `SIZE` to standard output and standard error, which are then pipes", size(&l.Output))
	fs.Func("disk", "kill the command when its changes in the session take more than `SIZE`", size(&l.Disk))
	fs.Func("inodes", "kill the command when it creates more than `N` files in its session", count(&l.Inodes))
	fs.Func("nice", "lower the command's priority by `N`, 1 to 19", count(&l.Nice))
	fs.BoolVar(&l.IdleIO, "idle-io", false, "let the command use disks only when nothing else does")
}
