//go:build linux

package nsrun_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// insideServe is a server on sockets that ends with its standard input. It says when it listens. "chroot=DIR",
// "bind=FROM=TO" and "thread=DIR" change the directories that names refer to: for the process, in its mount namespace,
// for one thread.
func insideServe(args []string) int {
	runtime.LockOSThread()
	for _, name := range args {
		word, rest, _ := strings.Cut(name, "=")
		switch word {
		case "chroot":
			if err := errors.Join(unix.Chroot(rest), unix.Chdir("/")); err != nil {
				fmt.Println(err)
				return 1
			}
			continue
		case "bind":
			from, to, _ := strings.Cut(rest, "=")
			if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount(from, to, "", unix.MS_BIND, "")); err != nil {
				fmt.Println(err)
				return 1
			}
			continue
		case "thread":
			done := make(chan error)
			go func() {
				runtime.LockOSThread()
				err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Chdir(rest))
				if err == nil {
					var ln net.Listener
					if ln, err = net.Listen("unix", "of a thread"); err == nil {
						ln.(*net.UnixListener).SetUnlinkOnClose(false)
					}
				}
				done <- err
				if err == nil {
					_, _ = unix.Read(0, make([]byte, 1)) // the thread stays
				}
			}()
			if err := <-done; err != nil {
				fmt.Println(err)
				return 1
			}
			continue
		}
		ln, err := net.Listen("unix", name)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// serveUnix starts insideServe in a directory.
func serveUnix(t *testing.T, dir string, attr *syscall.SysProcAttr, names ...string) {
	t.Helper()
	c := exec.Command(self(t), names...)
	c.Env, c.Dir, c.SysProcAttr, c.Stderr = []string{insideEnv + "=serve"}, dir, attr, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
}

// newNet is another network namespace, in another mount namespace.
func newNet() *syscall.SysProcAttr { return newSpace(unix.CLONE_NEWNET | unix.CLONE_NEWNS) }

func newSpace(flags uintptr) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if !testenv.Root() {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// TestSocketsByInode: sockets of the host are hidden whatever the name says that they were bound to. The control is a
// sandbox in which nothing is hidden.
func TestSocketsByInode(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	shown := filepath.Join(dir, "shown")
	link := filepath.Join(dir, "link")
	testenv.Tree(t, dir, "shown/", "shown/sub/", "link => shown", "shown/m/", "shown/t/", "shown/c/d/", "elsewhere/",
		"shown/alone/sub/", "shown/apart/sub/", "shown/absolute/")
	at := func(name string) string { return filepath.Join(shown, name) }
	serveUnix(t, shown, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, at("plain"), "relative", "sub/below", "./dotted", at("old"), at("first"), filepath.Join(link, "linked"),
		at("new\nline"), at("with space"), at("renamed and replaced"), "relative and renamed")
	serveUnix(t, shown, newNet(), at("other network"), at("other network: new"), "other, relative", at("other\nline"))
	serveUnix(t, dir, newSpace(unix.CLONE_NEWNS), "bind="+at("m")+"="+filepath.Join(dir, "elsewhere"), filepath.Join(dir, "elsewhere/moved mount"))
	serveUnix(t, dir, newSpace(unix.CLONE_NEWNS), "chroot="+at("c"), "/d/other root")
	serveUnix(t, dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, "thread="+at("t"))
	serveUnix(t, at("alone"), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, "old", "sub/old")
	serveUnix(t, at("apart"), newNet(), "old", "sub/old", at("absolute/old"))
	for _, err := range []error{
		os.Rename(at("alone/old"), at("alone/new")), os.Rename(at("alone/sub/old"), at("alone/sub/new")),
		os.Rename(at("apart/old"), at("apart/new")), os.Link(at("apart/sub/old"), at("apart/sub/new")), os.Rename(at("absolute/old"), at("absolute/new")),
		os.Rename(at("old"), at("new")), os.Link(at("first"), at("second")),
		os.Rename(at("renamed and replaced"), at("away")), os.WriteFile(at("renamed and replaced"), nil, 0o600),
		os.Rename(at("relative and renamed"), at("relative and new")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{at("plain"), at("relative"), at("sub/below"), at("dotted"), at("new"), at("first"), at("second"), at("linked"), at("new\nline"),
		at("with space"), at("away"), at("relative and new"), at("other network"), at("other network: new"),
		at("other, relative"), at("other\nline"), at("m/moved mount"), at("c/d/other root"), at("t/of a thread"),
		at("alone/new"), at("alone/sub/new"), at("apart/new"), at("apart/sub/new"), at("absolute/new")}
	none := nsrun.Spec{Mounts: append(nsrun.BaseMounts(), mounts.ROBind(shown, shown), shownMount(t))}.Command(self(t), names...)
	none.Env = []string{insideEnv + "=dial"}
	if out, err := none.Output(); err != nil || strings.Count(string(out), "reached\n") != len(names) {
		t.Fatalf("the control: %v\n%s", err, out)
	}
	for mode, config := range map[string]nsrun.Config{
		"read-only": {Shared: []nsrun.Folder{{Path: shown, Mode: nsrun.ReadOnly}}},
		"direct":    {Shared: []nsrun.Folder{{Path: shown, Mode: nsrun.Direct}}},
		"overlay":   {Shared: []nsrun.Folder{{Path: shown}}, After: nsrun.Discard},
		"rule":      {Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: shown}}},
		"allowed":   {Shared: []nsrun.Folder{{Path: shown, Mode: nsrun.ReadOnly}}, AllowUnix: []string{at("relative")}},
	} {
		config.Rules = append(config.Rules, nsrun.Rule{Mode: nsrun.ReadOnly, Pattern: self(t)})
		got := strings.Split(strings.TrimSuffix(output(t, runner(t, config), insideRequest(t, "dial", names...)), "\n"), "\n")
		for i, name := range names {
			if want := slices.Contains(config.AllowUnix, name); i >= len(got) || (got[i] == "reached") != want {
				t.Errorf("%s: %q: %q", mode, name, got)
			}
		}
	}
}

// TestSocketsOfContainers: sockets of other network namespaces are hidden in a run that shows nothing but its project,
// too. The control is a sandbox in which nothing is hidden.
func TestSocketsOfContainers(t *testing.T) {
	testenv.NeedRoot(t) // the sockets must not be in a private place
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a")
	const public = "/srv"
	if err := unix.Mount(dir, public, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(public, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	exe, err := os.ReadFile(self(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(public, "dial"), exe, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	serveUnix(t, public, newNet(), public+"/absolute", "relative")
	names := []string{public + "/absolute", public + "/relative"}
	request := insideRequest(t, "dial", names...)
	request.Args[0] = public + "/dial"
	none := nsrun.Spec{Mounts: nsrun.BaseMounts()}.Command(request.Args[0], names...)
	none.Env = request.Env
	if out, err := none.Output(); err != nil || strings.Count(string(out), "reached\n") != len(names) {
		t.Fatalf("the control: %v\n%s", err, out)
	}
	hidden := nsrun.Spec{Mounts: append(nsrun.BaseMounts(), nsrun.HideSockets()...)}.Command(request.Args[0], names...)
	hidden.Env = request.Env
	if out, err := hidden.Output(); err != nil || strings.Contains(string(out), "reached") {
		t.Errorf("HideSockets: %v\n%s", err, out)
	}
	for _, engine := range []overlay.Engine{0, overlay.EngineTmpfs} { // whose tmpfs is attached in one sandbox only
		t.Run(engine.String(), func(t *testing.T) {
			c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Engine: engine}
			needFor(t, c)
			r := runner(t, c)
			for range 3 { // the next ones do not ask all processes
				if got := output(t, r, request); strings.Contains(got, "reached") {
					t.Error(got)
				}
			}
		})
	}
}
