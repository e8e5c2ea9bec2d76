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

// LastName is the file with the command with which a session was last resumed, as a line of JSON. Anything after that
// line is the rest of a longer one. Its modification time is the time of that command. The file is overwritten in
// place, because on some file systems replacing it takes longer than a short command. No change depends on it; a line
// that is cut off is ignored.
const LastName = "last.json"

// CommandMost is how much of a command is kept, in bytes. LastMost limits the file.
const (
	CommandMost = 128 << 10
	LastMost    = 1 << 20
)

// NoteUse notes that command now uses the session in dir. Nil: the previous command does.
func NoteUse(dir *tree.Handle, command []string) error {
	f, err := dir.Open(LastName, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		f, err = dir.Create(LastName)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(RawTexts(shorten(command))) // "null" stands for the first command
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

// shorten cuts off a command that is too long, and adds "…".
func shorten(command []string) []string {
	size := 0
	for i, arg := range command {
		if size += len(arg) + 1; size > CommandMost {
			return append(slices.Clone(command[:i]), "…")
		}
	}
	return command
}

// LastCommand returns the command that last used the session in dir. A nil dir is closed.
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
