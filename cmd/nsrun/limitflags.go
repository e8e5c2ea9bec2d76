//go:build linux

package main

import (
	"errors"
	"flag"
	"strconv"

	nsrunlib "github.com/nsrun/nsrun"
)

// limitFlags are the flags of limits.
func limitFlags(fs *flag.FlagSet, l *nsrunlib.Limits) {
	size := func(to *int64) func(string) error {
		return func(text string) (err error) {
			if *to, err = nsrunlib.ParseSize(text); err == nil && *to == 0 {
				err = errors.New("a limit of zero leaves nothing")
			}
			return err
		}
	}
	count := func(to *int) func(string) error {
		return func(text string) (err error) {
			if *to, err = strconv.Atoi(text); err != nil || *to < 1 {
				err = errors.New("not a number from 1")
			}
			return err
		}
	}
	fs.Func("memory", "kill the command, with all that it started, when it uses more memory than `SIZE` (512M, 2G)", size(&l.Memory))
	fs.Func("swap", "with --memory, let it use swap of `SIZE`, or max (default: none)", func(text string) error {
		if text == "max" {
			l.Swap = -1
			return nil
		}
		n, err := nsrunlib.ParseSize(text)
		l.Swap = n
		return err
	})
	fs.Func("pids", "let it have at most `N` processes and threads", count(&l.PIDs))
	fs.Func("cpus", "let it use the time of `N` processors, such as 1.5", func(text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if l.CPUs = f; err != nil || f <= 0 {
			return errors.New("not a number above zero")
		}
		return nil
	})
	fs.Func("nofile", "let each process have at most `N` open files", count(&l.OpenFiles))
	fs.Func("fsize", "let files grow to `SIZE` at most", size(&l.FileSize))
	fs.Func("output", "kill it when it writes more than `SIZE` to standard output and standard error, which are pipes then", size(&l.Output))
	fs.Func("disk", "kill it when what it writes to its session takes more than `SIZE`", size(&l.Disk))
	fs.Func("inodes", "kill it when it makes more than `N` files in its session", count(&l.Inodes))
	fs.Func("nice", "lower its priority by `N`, 1 to 19", count(&l.Nice))
	fs.BoolVar(&l.IdleIO, "idle-io", false, "let it use disks only when nobody else does")
}
