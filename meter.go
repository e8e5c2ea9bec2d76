//go:build linux

package nsrun

import (
	"io"
	"sync"
)

// A meter limits what a command writes to standard output and standard error together.
type meter struct {
	over func() // is called once, when there is more

	mu    sync.Mutex
	left  int64
	total int64
	hit   bool
}

// take counts n bytes, and returns how many of them may pass.
func (m *meter) take(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += int64(n)
	pass := int(min(int64(n), m.left))
	m.left -= int64(pass)
	if pass < n && !m.hit {
		m.hit = true
		m.over()
	}
	return pass
}

// state returns how much was written, and whether that was too much.
func (m *meter) state() (total float64, hit bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.total), m.hit
}

// through is a writer through the meter. A nil one stays nil.
func (m *meter) through(w io.Writer) io.Writer {
	if m == nil || w == nil {
		return w
	}
	return &metered{m, w}
}

// metered passes on what is within the limit. Its writer gets no error for the rest: it is being killed.
type metered struct {
	meter *meter
	to    io.Writer
}

func (w *metered) Write(p []byte) (int, error) {
	if n := w.meter.take(len(p)); n > 0 {
		if n, err := w.to.Write(p[:n]); err != nil {
			return n, err
		}
	}
	return len(p), nil
}
