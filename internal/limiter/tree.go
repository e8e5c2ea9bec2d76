//go:build linux

package limiter

import (
	"bytes"
	"os"
	"strconv"
)

// sees reports whether tree finds all processes: it takes a kernel with CONFIG_PROC_CHILDREN, and /proc.
func sees() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
}

// tree calls do for each process from pid downwards, with its directory in /proc: in a sandbox all are descendants of PID 1.
func tree(pid int, do func(proc string)) {
	todo := []int{pid}
	for len(todo) > 0 {
		proc := "/proc/" + strconv.Itoa(todo[0])
		todo = todo[1:]
		tasks, _ := os.ReadDir(proc + "/task")
		for _, task := range tasks {
			children, _ := os.ReadFile(proc + "/task/" + task.Name() + "/children")
			for child := range bytes.FieldsSeq(children) {
				if n, err := strconv.Atoi(string(child)); err == nil {
					todo = append(todo, n)
				}
			}
		}
		do(proc)
	}
}
