package fanotify

import (
	"errors"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
)

// An Engine is a way to get events from the kernel.
type Engine uint8

const (
	// Auto is Fanotify if that is available for all roots, else Inotify.
	Auto Engine = iota
	Fanotify
	Inotify
)

// String returns "auto", "fanotify" or "inotify".
func (e Engine) String() string {
	switch e {
	case Auto:
		return "auto"
	case Fanotify:
		return "fanotify"
	case Inotify:
		return "inotify"
	}
	return "engine " + strconv.Itoa(int(e))
}

func (e Engine) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *Engine) UnmarshalText(b []byte) error {
	for _, v := range [...]Engine{Auto, Fanotify, Inotify} {
		if v.String() == string(b) {
			*e = v
			return nil
		}
	}
	return errors.New("not an engine (auto, fanotify, inotify): " + escape.Quote(string(b)))
}

// Options say what to watch. The zero Options are an error: there must be a root.
type Options struct {
	// Roots are the directories to watch. None may be inside another. Symbolic links on the way to them are
	// followed once.
	Roots []string

	// Engine is the engine to use; New fails if it is not available. The zero value lets New choose.
	Engine Engine

	// Unlimited asks for a queue without a limit in the kernel, for Fanotify only and with CAP_SYS_ADMIN. Then
	// there is no overflow, but a process that writes faster than events are read fills the kernel's memory
	// (FAN_UNLIMITED_QUEUE, fanotify_init(2)).
	Unlimited bool

	// Sweep makes Stop look through the roots for changes that the kernel did not report: writes through a mapping
	// (mmap(2)), and on some kernels those through an overlay whose upper directory is watched. Linux 6.18 reports
	// the latter.
	Sweep bool
}
