//go:build linux

package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// LastName is the file that holds the command a session was resumed with last, as a line
// of JSON; what follows that line is left of a longer one. Its modification time is when
// that was. It is written over in place, since replacing a file takes some file systems
// longer than a short command takes. No change depends on it; a line that was cut short counts
// as none.
const LastName = "last.json"

// Of a command no more is kept than commandMost, in bytes; lastMost bounds the file.
const (
	CommandMost = 128 << 10
	LastMost    = 1 << 20
)

// NoteUse notes that the session in dir is used now, by command; nil: by the one before.
func NoteUse(dir *tree.Handle, command []string) error {
	f, err := dir.Open(LastName, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		f, err = dir.Create(LastName)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(RawTexts(shorten(command))) // of nil "null": the one it was made for
	if err != nil {
		return err
	}
	line = append(line, '\n')
	st, err := f.Stat()
	if err != nil || !st.IsReg() {
		return tree.OrMoved(err)
	}
	if command == nil && st.Size > 0 {
		return f.SetMtime(unix.Timespec{Nsec: unix.UTIME_NOW})
	}
	if err := tree.WriteAll(f, line); err != nil || st.Size <= int64(len(line)) {
		return err
	}
	return sys.Retry(func() error { return unix.Ftruncate(int(f.FD), int64(len(line))) })
}

// shorten leaves out what is too much of a command, and says so by a "…" at its end.
func shorten(command []string) []string {
	size := 0
	for i, arg := range command {
		if size += len(arg) + 1; size > CommandMost {
			return append(slices.Clone(command[:i]), "…")
		}
	}
	return command
}

// LastCommand returns what the session in dir was used for last. A nil dir is closed.
func LastCommand(dir *tree.Handle, m *Meta) []string {
	list := m.Command
	if dir != nil {
		var last []Text
		data, err := dir.ReadFile(LastName, LastMost)
		if line, _, ok := bytes.Cut(data, []byte{'\n'}); err == nil && ok && json.Unmarshal(line, &last) == nil && last != nil {
			list = last
		}
	}
	var args []string
	for _, arg := range list {
		args = append(args, string(arg))
	}
	return args
}

// LastUse is when the session in d was ended, or used last.
func LastUse(d *tree.Handle, m *Meta) (time.Time, error) {
	last := m.Created
	for _, name := range [...]string{MetaName, LastName} {
		st, found, err := d.LstatIf(name)
		if err != nil {
			return last, err
		}
		if t := time.Unix(st.Mtime.Unix()); found && (name == MetaName || t.After(last)) {
			last = t
		}
	}
	return last, nil
}
