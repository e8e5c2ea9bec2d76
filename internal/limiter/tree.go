//go:build linux

package limiter

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/mounts"
)

// sees reports whether tree finds all processes. That needs a kernel with CONFIG_PROC_CHILDREN, and a /proc that also
// shows processes that nobody may look into: PID 1 is one, and each process can make itself one.
func sees() bool {
	infos, err := mounts.ReadMountinfo()
	if err != nil || hides(infos) {
		return false
	}
	_, err = os.Stat("/proc/thread-self/children")
	return err == nil
}

// hides reports whether the topmost mount at /proc shows only some processes.
func hides(infos []mounts.Info) (hidden bool) {
	for _, in := range infos {
		if in.Target == "/proc" {
			_, value, found := strings.Cut(in.Super, "hidepid=")
			hidden = found && !strings.HasPrefix(value, "0") && !strings.HasPrefix(value, "off")
		}
	}
	return hidden
}

// mostProcs is how many processes tree visits: a command may start new ones faster than they are visited.
const mostProcs = 50_000

// tree calls do for a process and its descendants, with their directories in /proc, until do returns false. In a
// sandbox all processes are descendants of PID 1. If it returns an error (see lack), it may have left out processes.
func tree(pid int, do func(proc string) (more bool)) (lacks error) {
	todo := []int{pid}
	for range mostProcs {
		if len(todo) == 0 {
			return lacks
		}
		proc := "/proc/" + strconv.Itoa(todo[0])
		todo = todo[1:]
		tasks, err := os.ReadDir(proc + "/task")
		lacks = cmp.Or(lacks, lack(err))
		for _, task := range tasks {
			children, err := os.ReadFile(proc + "/task/" + task.Name() + "/children")
			lacks = cmp.Or(lacks, lack(err))
			for child := range bytes.FieldsSeq(children) {
				if n, err := strconv.Atoi(string(child)); err == nil {
					todo = append(todo, n)
				}
			}
		}
		if !do(proc) {
			return lacks
		}
	}
	return lacks
}

// lack returns an error if it says that this process has too many open files, for example because a command made it
// hold many sockets. It ignores all others: the process or file may have gone.
func lack(err error) error {
	for _, e := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}
