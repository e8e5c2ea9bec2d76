//go:build linux

package attempts

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// mostKept is how much of the messages is kept, in bytes.
const mostKept = 16 << 10

// Messages keeps what the processes of one sandbox write to files that are their standard error and standard output, by
// write(2) or writev(2): the beginning of each write, and of all that the end. A Supervisor or server of other calls
// that is attached later serves Messages, too.
type Messages struct {
	server      notify.Server
	descriptors []uint32           // those that are kept
	files       [3]string          // /proc's names of their files
	text        [unix.PathMax]byte // for the thread that gets the calls

	mu     sync.Mutex // a broker's thread may still be told after Close
	kept   [3][]byte
	closed bool
}

// NewMessages returns the Messages of two files. Of standard output nothing is kept if it is nil. If redirects is true,
// processes may have the file of standard error as their standard output, as a shell has in "echo x >&2": what they
// write to it is kept as well. Without /proc nothing is kept at all.
func NewMessages(stderr, stdout *os.File, redirects bool) *Messages {
	m := &Messages{descriptors: []uint32{standardError}}
	m.files[standardError] = link(sys.FD(stderr.Fd()))
	if stdout != nil || redirects {
		m.descriptors = append(m.descriptors, standardOutput)
	}
	if stdout != nil {
		m.files[standardOutput] = link(sys.FD(stdout.Fd()))
	}
	m.server.Handle = m.handle
	return m
}

// Join makes c, which has a Supervisor, a command whose messages are kept: the Supervisor has to pass calls on to
// sandbox.Options.Observer. Close must be called.
func (m *Messages) Join(c *sandbox.Options) {
	s := *c.Supervisor
	s.Filter = m.filter(s.Filter)
	c.Supervisor = &s
	c.Observer = &sandbox.Observer{Handle: m.handle, Answers: isWrite}
}

// Attach makes c a command whose messages are kept. It installs the filter deny, which must not be among the command's
// other filters and must refuse the calls of other architectures. If the kernel provides no listener, only deny is
// installed. Close must be called.
func (m *Messages) Attach(c *sandbox.Options, deny []unix.SockFilter) {
	f := m.filter(deny)
	c.Observer = &sandbox.Observer{Filter: f, Look: func(*notify.Notification) {}, Handle: m.handle, Answers: isWrite}
	c.Supervisor = &sandbox.Supervisor{Filter: f, Optional: true, Started: func(l *os.File, _ []*os.File) error { return m.server.Start(l) }}
}

// Close returns the end of what was written to standard error and to standard output. It must be called when the
// sandbox has ended.
func (m *Messages) Close() (stderr, stdout []byte) {
	m.server.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.kept[standardError], m.kept[standardOutput]
}

// filter returns the filter: it reports writes that are kept, and otherwise answers as deny does.
func (m *Messages) filter(deny []unix.SockFilter) (f seccomp.Filter) {
	f.Add(seccomp.Load, 0, 0, seccomp.DataArch)
	f.When(seccomp.Equal, seccomp.Arch, func() {
		f.Nr()
		reportWrites(&f, m.descriptors...)
	})
	return append(f, deny...)
}

func isWrite(nr int32) bool { return nr == unix.SYS_WRITE || nr == unix.SYS_WRITEV }

func (m *Messages) handle(l notify.Listener, n *notify.Notification) {
	// Compare names, because a file system that does not answer would block this thread for ever.
	fd := int(uint32(n.Args[0])) % len(m.files) // the filter reports no others
	file := stream(int(n.PID), strconv.Itoa(fd))
	for _, as := range [...]int{fd, standardError} {
		if file != "" && file == m.files[as] {
			written(n, &m.text, func(text []byte) { m.keep(&m.kept[as], text) })
			break
		}
	}
	l.Proceed(n.ID)
}

// keep keeps the text of a write. It alone has the mutex: reading the text can take as long as a file system takes.
func (m *Messages) keep(kept *[]byte, text []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if *kept = append(*kept, text...); len(*kept) > 2*mostKept {
		*kept = append((*kept)[:0], (*kept)[len(*kept)-mostKept:]...)
	}
}
