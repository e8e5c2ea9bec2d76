//go:build linux

package console

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

const (
	barAfter = 500 * time.Millisecond // what takes less shows no bar
	barEvery = 100 * time.Millisecond
	barWidth = 20
)

// A bar shows the progress of a commit or a copy on the terminal. The nil bar shows nothing.
type bar struct {
	what  string // "committing"
	began time.Time
	drawn time.Time // zero: never

	mu   sync.Mutex  // for what next does
	next *time.Timer // shows what Then says; nil: nothing does
}

// NewBar returns nil if standard error is not a terminal that can show a bar.
func NewBar(what string, quiet bool) *bar {
	if quiet || os.Getenv("TERM") == "dumb" || !IsTerminal(os.Stderr) {
		return nil
	}
	return &bar{what: what, began: time.Now()}
}

// Progress returns the function that a commit or a copy calls; nil for the nil bar.
func (b *bar) Progress() func(overlay.Progress) {
	if b == nil {
		return nil
	}
	return func(p overlay.Progress) {
		now := time.Now()
		if now.Sub(b.began) < barAfter || now.Sub(b.drawn) < barEvery {
			return
		}
		b.drawn = now
		columns := 80
		if size, err := unix.IoctlGetWinsize(int(os.Stderr.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			columns = int(size.Col)
		}
		_, _ = os.Stderr.WriteString("\r" + barText(b.what, p, columns-1) + "\x1b[K")
	}
}

// Then shows what comes last, until End. Nobody knows how long it takes.
func (b *bar) Then(what string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = time.AfterFunc(barAfter-time.Since(b.began), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.next != nil {
			b.drawn = time.Now()
			_, _ = os.Stderr.WriteString("\rnsrun: " + what + "\x1b[K")
		}
	})
}

// Waiting says why a commit does not go on, also where no bar is shown.
func (b *bar) Waiting(h overlay.Holder) {
	b.clear()
	const text, end = "waiting for another commit to this project", "Ctrl-C ends the wait"
	switch {
	case h == (overlay.Holder{}):
		Say("%s, which has not ended (%s)", text, end)
	case h.Stopped:
		Say("%s: that of %s (to continue it: kill -CONT %d; %s)", text, h, h.PID, end)
	default:
		Say("%s: that of %s (%s)", text, h, end)
	}
}

// End clears the line.
func (b *bar) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		b.next.Stop()
		b.next = nil
	}
	b.erase()
}

// clear clears the line until the next progress.
func (b *bar) clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
}

func (b *bar) erase() {
	if !b.drawn.IsZero() {
		b.drawn = time.Time{}
		_, _ = os.Stderr.WriteString("\r\x1b[K")
	}
}

// barText returns the line, cut to a number of columns.
func barText(what string, p overlay.Progress, columns int) string {
	done := max(0, min(p.Done, p.Total))
	part := 0
	if p.Total > 0 {
		part = int(int64(barWidth) * int64(done) / int64(p.Total))
	}
	text := fmt.Sprintf("nsrun: %s [%s%s] %d of %d, %s", what,
		strings.Repeat("#", part), strings.Repeat(".", barWidth-part), done, p.Total, Size(p.Bytes))
	if p.Total == 0 && p.Done > 0 { // nobody knows how much there is
		text = fmt.Sprintf("nsrun: %s: %d files, %s", what, p.Done, Size(p.Bytes))
	}
	return text[:max(0, min(len(text), columns))]
}
