//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// readProc reads a file of the host's procfs.
func readProc(name string) (string, error) {
	fd, err := unix.Openat(procFD, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	b, err := io.ReadAll(file)
	return string(b), err
}

func linkProc(name string) (string, error) {
	var buf [4096]byte
	n, err := unix.Readlinkat(procFD, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// fromProc notes what only a procfs tells.
func (f facts) fromProc() {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(procFD, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		f["proc"] = "none"
		return
	}
	environ, err := readProc("self/environ")
	f.put("environ", strings.ReplaceAll(environ, "\x00", "\n"), err)
	for _, name := range []string{"uid_map", "gid_map", "setgroups", "oom_score_adj", "coredump_filter", "limits", "cgroup"} {
		text, err := readProc("self/" + name)
		var lines []string
		for line := range strings.Lines(text) {
			// The Go runtime has raised this one.
			if !strings.HasPrefix(line, "Max open files") {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
		}
		f.put(name, strings.Join(lines, "\n"), err)
	}
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts"} {
		link, err := linkProc("self/ns/" + ns)
		f.put("ns."+ns, link, err)
	}
	limit, err := readProc("sys/user/max_user_namespaces")
	f.put("max_user_namespaces", strings.TrimSpace(limit), err)
	domain, err := readProc("self/net/dev")
	var devices []string
	for line := range strings.Lines(domain) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			devices = append(devices, strings.TrimSpace(name))
		}
	}
	f.put("net.devices", strings.Join(devices, " "), err)
	f.ancestors()
}

// ancestors notes which processes are above this one, from the host's point of
// view. What they are like is not asked: they may still be on their way there.
func (f facts) ancestors() {
	pid, err := linkProc("self")
	f.put("hostpid", pid, err)
	for i := 0; i < 5 && err == nil && pid != "0"; i++ {
		var text string
		if text, err = readProc(pid + "/status"); err != nil {
			return
		}
		status := make(map[string]string)
		for line := range strings.Lines(text) {
			k, v, _ := strings.Cut(line, ":")
			status[k] = strings.Join(strings.Fields(v), " ")
		}
		key := fmt.Sprint("up.", i)
		f[key+".pid"] = pid
		f[key+".depth"] = fmt.Sprint(len(strings.Fields(status["NSpid"])))
		f[key+".Name"] = status["Name"]
		pid = status["PPid"]
	}
}
