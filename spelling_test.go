//go:build linux

package nsrun_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func init() {
	insides["spelling mount"], insides["spelling run"] = spellingMount, spellingRun
}

// spelled are the files of serveSpelled, by their node numbers less one. A directory has no text.
var spelled = []struct {
	parent     uint64
	name, text string
}{
	{0, "", ""}, {1, "home", ""}, {1, "p", ""}, {2, ".netrc", "SECRET"}, {2, ".ssh", ""}, {5, "id_rsa", "SECRET"}, {3, "secret.txt", "SECRET"}, {3, "sd", ""}, {8, "f", "SECRET"},
}

func putAttributes(b []byte, node uint64) {
	mode := uint32(unix.S_IFDIR | 0o755)
	if text := spelled[node-1].text; text != "" {
		mode = unix.S_IFREG | 0o644
		binary.NativeEndian.PutUint64(b[8:], uint64(len(text)))
	}
	binary.NativeEndian.PutUint64(b, node)
	binary.NativeEndian.PutUint32(b[60:], mode)
	binary.NativeEndian.PutUint32(b[64:], 1) // links
}

// serveSpelled serves a FUSE file system that ignores case, which the kernel does not know (linux/fuse.h).
func serveSpelled(fd int) {
	b := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, b)
		if err != nil || n < 40 {
			return
		}
		data, errno, ok := answerSpelled(binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint64(b[16:]), b[40:n])
		if !ok {
			continue
		}
		answer := binary.NativeEndian.AppendUint32(nil, uint32(16+len(data)))
		answer = binary.NativeEndian.AppendUint32(answer, uint32(-int32(errno)))
		answer = append(answer, b[8:16]...)
		_, _ = unix.Write(fd, append(answer, data...))
	}
}

func answerSpelled(op uint32, node uint64, in []byte) (data []byte, errno unix.Errno, ok bool) {
	switch op {
	case 2, 36, 42: // FUSE_FORGET, FUSE_INTERRUPT, FUSE_BATCH_FORGET have no answer
		return nil, 0, false
	case 26: // FUSE_INIT
		data = make([]byte, 64)
		binary.NativeEndian.PutUint32(data, 7)
		binary.NativeEndian.PutUint32(data[4:], 31)
		binary.NativeEndian.PutUint32(data[20:], 4096)
	case 1: // FUSE_LOOKUP
		name, _, _ := strings.Cut(string(in), "\x00")
		for i, f := range spelled {
			if f.parent == node && strings.EqualFold(f.name, name) {
				data = make([]byte, 128)
				binary.NativeEndian.PutUint64(data, uint64(i+1))
				putAttributes(data[40:], uint64(i+1))
				return data, 0, true
			}
		}
		return nil, unix.ENOENT, true
	case 3: // FUSE_GETATTR
		data = make([]byte, 104)
		putAttributes(data[16:], node)
	case 14, 27: // FUSE_OPEN, FUSE_OPENDIR
		data = make([]byte, 16)
	case 15: // FUSE_READ
		if text := spelled[node-1].text; binary.NativeEndian.Uint64(in[8:]) == 0 {
			data = []byte(text)
		}
	case 28: // FUSE_READDIR
		for i, f := range spelled {
			if f.parent == node && binary.NativeEndian.Uint64(in[8:]) <= uint64(i) {
				data = binary.NativeEndian.AppendUint64(data, uint64(i+1))
				data = binary.NativeEndian.AppendUint64(data, uint64(i+1))
				data = binary.NativeEndian.AppendUint32(data, uint32(len(f.name)))
				data = append(binary.NativeEndian.AppendUint32(data, 0), f.name...)
				data = append(data, make([]byte, (8-len(data)%8)%8)...)
			}
		}
	case 17: // FUSE_STATFS
		data = make([]byte, 80)
	case 18, 25, 29, 34: // FUSE_RELEASE, FUSE_FLUSH, FUSE_RELEASEDIR, FUSE_ACCESS
	default:
		errno = unix.ENOSYS
	}
	return data, errno, true
}

// spellingMount mounts the file system in a mount namespace of its own, and has another process run commands there.
// Its arguments are that process's.
func spellingMount(args []string) int {
	c, err := besideFUSE(args, "spelling run", serveSpelled)
	if err != nil {
		fmt.Println("mount:", err)
		return 1
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Println(err)
	}
	_ = unix.Unmount(args[0], unix.MNT_DETACH)
	return 0
}

// spellingRun runs commands that use another spelling of names. Its arguments are the directory of the file system, of
// a project elsewhere, and of its sessions.
func spellingRun(args []string) int {
	dir, secret := args[0], filepath.Join(args[0], "p/secret.txt")
	if b, err := os.ReadFile(filepath.Join(dir, "P/SECRET.txt")); string(b) != "SECRET" {
		fmt.Println("control:", err)
	}
	blocked := []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: secret}}
	run := func(name string, c nsrun.Config, command string) {
		if c.After != nsrun.Commit {
			c.After = nsrun.Discard
		}
		r := nsrun.NewRunner(c)
		res, err := r.Run(context.Background(), nsrun.Request{Args: []string{"sh", "-c", command}})
		what := ""
		switch {
		case err != nil && strings.Contains(err.Error(), "spelling"):
			what = "refused"
		case err != nil:
			what = err.Error()
		case strings.Contains(string(res.Stdout.Bytes()), "SECRET"):
			what = "read"
		case len(res.Held) > 0:
			what = "held " + res.Held[0].Path
		}
		fmt.Printf("%s: %s\n", name, what)
	}
	const reads = "cat SECRET.txt Secret.txt; cat SD/f; true"
	run("session", nsrun.Config{Project: dir + "/p", Rules: blocked}, reads)
	run("existing", nsrun.Config{Project: dir + "/p", Rules: blocked, BlockExisting: true}, reads)
	run("copy", nsrun.Config{Project: dir + "/p", Rules: append(blocked, nsrun.Rule{Mode: nsrun.Blocked, Pattern: dir + "/p/sd"}), Engine: overlay.EngineCopy}, reads)
	run("directory", nsrun.Config{Project: dir + "/p", Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: dir + "/p/sd"}}}, "cat SD/f sd/f; cat Sd/F; true")
	run("missing", nsrun.Config{Project: dir + "/p", Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: dir + "/p/none"}}}, "true")
	run("direct", nsrun.Config{Project: dir + "/p", Mode: nsrun.Direct, Rules: []nsrun.Rule{{Mode: nsrun.Protected, Pattern: secret}}}, "true")
	run("protected", nsrun.Config{Project: dir + "/p", After: nsrun.Commit, Rules: []nsrun.Rule{{Mode: nsrun.Protected, Pattern: secret}}}, "echo >SECRET.txt")
	if err := os.Setenv("HOME", dir+"/home"); err != nil {
		fmt.Println(err)
	}
	run("home", nsrun.Config{Project: args[1], Home: nsrun.HomeLayer, StateDir: args[2]}, "cd; cat .NETRC .netrc .SSH/id_rsa .ssh/id_rsa .Ssh/ID_RSA; true")
	nsexec.Shutdown()
	return 0
}

// TestSpelling: where a file system ignores case, and the kernel does not know that, what is hidden or protected cannot
// be opened under another spelling of its name.
func TestSpelling(t *testing.T) {
	testenv.NeedRoot(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		testenv.Skip(t, "fuse", err.Error())
	}
	dir := place(t, "a")
	testenv.Tree(t, dir, "mnt/")
	c := exec.Command(self(t), filepath.Join(dir, "mnt"), filepath.Join(dir, "p"), filepath.Join(dir, "state"))
	c.Env = append(os.Environ(), insideEnv+"=spelling mount")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	c.Stderr = os.Stderr
	out, err := c.Output()
	const want = "session: refused\nexisting: read\ncopy: \ndirectory: \nmissing: refused\ndirect: refused\nprotected: held SECRET.txt\nhome: \n"
	if string(out) != want || err != nil {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
}
