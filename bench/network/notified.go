//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a broker costs at least: a process receives the client's socket(2) and connect(2), looks at nothing, and
// has the kernel do them (seccomp_unotify(2)). No enforcer that works so can be faster than that.

// notified returns what runs a command so.
func notified(self string, command ...string) func(...string) (string, error) {
	return func(args ...string) (string, error) {
		cmd := exec.Command(self, append(append([]string{"-role", "filtered"}, command...), args...)...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return "", err
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return "", err
		}
		lines := bufio.NewReader(out)
		l, err := takeListener(cmd.Process.Pid, lines)
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return "", err
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			proceed(l)
		}()
		_ = in.Close()
		result, _ := lines.ReadString('\n')
		err = cmd.Wait()
		<-served
		return result, errors.Join(err, unix.Close(l))
	}
}

// takeListener copies the listener that a filtered process has said the number of.
func takeListener(pid int, lines *bufio.Reader) (int, error) {
	line, err := lines.ReadString('\n')
	if err != nil {
		return -1, err
	}
	number, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return -1, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, number, 0)
}

// filtered installs the filter, says which number the listener has, waits until somebody has it, and
// becomes the command.
func filtered(args []string) error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		allow  = 0x7fff0000
		notify = 0x7fc00000
	)
	code := []unix.SockFilter{
		{Code: load},
		{Code: equal, Jt: 2, K: unix.SYS_SOCKET},
		{Code: equal, Jt: 1, K: unix.SYS_CONNECT},
		{Code: answer, K: allow},
		{Code: answer, K: notify},
	}
	runtime.LockOSThread() // which execve(2) makes the process
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	l, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})))
	if e != 0 {
		return e
	}
	fmt.Println(l)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return unix.Exec(args[0], args, os.Environ())
}

// proceed has the kernel carry out each call that it receives, until no caller is left.
func proceed(l int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ioctl := func(request uintptr, arg unsafe.Pointer) syscall.Errno {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(arg))
		return e
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	for {
		p := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err != nil {
			continue // a signal
		}
		if p[0].Revents&unix.POLLIN == 0 {
			return
		}
		var call struct { // struct seccomp_notif, and struct seccomp_notif_resp
			id uint64
			_  [256]byte
		}
		if ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)) != 0 {
			continue // it is gone
		}
		reply := struct {
			id    uint64
			value int64
			errno int32
			flags uint32
		}{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_ = ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply))
	}
}
