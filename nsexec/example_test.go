//go:build linux

package nsexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// host is the host's file system, read-only, with devices and processes of the sandbox's own.
var host = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}

func ExampleCommand() {
	cmd := nsexec.Command("tr", "a-z", "A-Z")
	cmd.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	cmd.Stdin = strings.NewReader("some input")
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", out)
	// Output: SOME INPUT
}

// The end of the context ends everything in the sandbox.
func ExampleCommandContext() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	cmd := nsexec.CommandContext(ctx, "sleep", "1000")
	cmd.Mounts = host
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	cancel()
	fmt.Println(cmd.Wait())
	// Output: signal: killed
}

// The command is in namespaces of its own, with a host name, ids and limits of its own.
func ExampleCmd() {
	cmd := nsexec.Command("sh", "-c", "uname -n; id -u; ulimit -n")
	cmd.Mounts = append(host, mounts.Tmpfs("/tmp"))
	cmd.Dir = "/tmp"
	cmd.Hostname = "sandbox"
	cmd.UIDMap = []nsexec.IDMap{{Inside: 1000, Outside: uint32(os.Getuid()), Count: 1}}
	cmd.GIDMap = []nsexec.IDMap{{Inside: 1000, Outside: uint32(os.Getgid()), Count: 1}}
	cmd.Credential = &nsexec.Credential{UID: 1000, GID: 1000}
	cmd.Rlimits = []nsexec.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 64, Hard: 64}}
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sandbox
	// 1000
	// 64
}

// A signal that is sent to Process reaches the command.
func ExampleCmd_Start() {
	cmd := nsexec.Command("sh", "-c", `trap 'echo ending; exit 7' TERM; echo ready; while :; do sleep 0.1; done`)
	cmd.Mounts = host
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Println(lines.Text())
		if lines.Text() == "ready" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Println(cmd.Wait())
	// Output:
	// ready
	// ending
	// exit status 7
}

// Failures of the sandbox and of the command can be distinguished.
func ExampleError() {
	run := func(name string, arg ...string) {
		cmd := nsexec.Command(name, arg...)
		cmd.Mounts = host
		err := cmd.Run()
		if e, ok := errors.AsType[*nsexec.Error](err); ok {
			fmt.Println("not started:", e.Op, e.Path, errors.Is(err, exec.ErrNotFound))
		}
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			fmt.Println("exit status", e.ExitCode())
		}
	}
	run("no-such-program")
	run("sh", "-c", "exit 3")
	// Output:
	// not started: exec no-such-program true
	// exit status 3
}

func ExampleParseCapabilities() {
	set, err := nsexec.ParseCapabilities("cap_net_bind_service,cap_chown")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set)
	// Output: cap_chown,cap_net_bind_service
}

// A program shares the caller's network, and nothing else.
func ExampleNamespace() {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		log.Fatal(err)
	}
	cmd := nsexec.Command("readlink", "-n", "/proc/self/ns/net")
	cmd.Mounts = host
	cmd.Share = nsexec.Net
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(out) == here)
	// Output: true
}
