//go:build linux

package attempts

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// mostKept is how much of the messages is kept, in bytes.
const mostKept = 16 << 10

// Messages keeps what the processes of one sandbox write to a file that is their standard error, by write(2) or
// writev(2): the beginning of each write, and of all that the end. A Supervisor or server of other calls that is
// attached later serves Messages, too.
type Messages struct {
	server notify.Server
	file   string             // /proc's name of it
	text   [unix.PathMax]byte // for the thread that gets the calls

	mu     sync.Mutex // a broker's thread may still be told after Close
	kept   []byte
	closed bool
}

// NewMessages returns the Messages of a file. Without /proc they keep nothing.
func NewMessages(file *os.File) *Messages {
	m := &Messages{file: link(sys.FD(file.Fd()))}
	m.server.Handle = m.handle
	return m
}

// Join makes c, which has a Supervisor, a command whose messages are kept: the Supervisor has to pass calls on to
// sandbox.Options.Observer. Close must be called.
func (m *Messages) Join(c *sandbox.Options) {
	s := *c.Supervisor
	s.Filter = messages(s.Filter)
	c.Supervisor = &s
	c.Observer = &sandbox.Observer{Handle: m.handle, Answers: isWrite}
}

// Attach makes c a command whose messages are kept. It installs the filter deny, which must not be among the command's
// other filters and must refuse the calls of other architectures. If the kernel provides no listener, only deny is
// installed. Close must be called.
func (m *Messages) Attach(c *sandbox.Options, deny []unix.SockFilter) {
	f := messages(deny)
	c.Observer = &sandbox.Observer{Filter: f, Look: func(*notify.Notification) {}, Handle: m.handle, Answers: isWrite}
	c.Supervisor = &sandbox.Supervisor{Filter: f, Optional: true, Started: func(l *os.File, _ []*os.File) error { return m.server.Start(l) }}
}

// Close returns the end of what was written. It must be called when the sandbox has ended.
func (m *Messages) Close() []byte {
	m.server.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.kept
}

// messages returns the filter: it reports writes to standard error, and otherwise answers as deny does.
func messages(deny []unix.SockFilter) (f seccomp.Filter) {
	f.Add(seccomp.Load, 0, 0, seccomp.DataArch)
	f.When(seccomp.Equal, seccomp.Arch, func() {
		f.Nr()
		reportWrites(&f)
	})
	return append(f, deny...)
}

func isWrite(nr int32) bool { return nr == unix.SYS_WRITE || nr == unix.SYS_WRITEV }

func (m *Messages) handle(l notify.Listener, n *notify.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Compare names, because a file system that does not answer would block this thread for ever.
	if !m.closed && m.file != "" && stream(int(n.PID), "2") == m.file {
		written(n, &m.text, m.keep)
	}
	l.Proceed(n.ID)
}

func (m *Messages) keep(text []byte) {
	if m.kept = append(m.kept, text...); len(m.kept) > 2*mostKept {
		m.kept = append(m.kept[:0], m.kept[len(m.kept)-mostKept:]...)
	}
}
