//go:build linux

package attempts

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

func TestMain(m *testing.M) {
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// TestMessages: nsrun keeps what a command writes to standard error. Without a free descriptor, nsrun still passes it
// on, but does not keep it until it has one again.
func TestMessages(t *testing.T) {
	if err := features.Get(features.SeccompNotification).Err(); err != nil {
		testenv.Skip(t, "seccomp-notification", err.Error())
	}
	testenv.Leaks(t, nsexec.Shutdown)
	for _, lacks := range []bool{false, true} {
		file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c := nsexec.Command("sh", "-c", "read x; cat none; cat none; echo; read x; cat gone")
		c.Mounts = mounts.Plan{mounts.Bind("/", "/").RO()}
		c.Stderr = file
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		m := NewMessages(file, nil, false)
		m.Attach(sandbox.Of(c), nsexec.DefaultFilter())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if lacks {
			lacking(t, func() { _, err = io.WriteString(in, "\n"); _, _ = out.Read(make([]byte, 1)) })
		} else {
			_, err = io.WriteString(in, "\n")
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(in, "\n")
		if err := c.Wait(); err == nil {
			t.Error("it succeeds")
		}
		said, _ := m.Close()
		kept := string(said)
		b, err := os.ReadFile(file.Name())
		if n := strings.Count(string(b), "none"); err != nil || n != 2 || !strings.Contains(string(b), "gone") {
			t.Errorf("lacks %t: %d messages arrived: %q, %v", lacks, n, b, err)
		}
		if n := strings.Count(kept, "none"); (n == 2) == lacks || !strings.Contains(kept, "gone") {
			t.Errorf("lacks %t: kept %q", lacks, kept)
		}
	}
}

// lacking calls f while this process can open no files: with 3 it can still poll as many.
func lacking(t *testing.T, f func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
