//go:build linux

package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/plainjson"
)

// What is stored, as JSON. The public types are apart: they may change, this may only
// grow. Times are nanoseconds since 1970, zero for none.

// text is a string that need not be UTF-8, as names of files are not: one that is not becomes an array of its bytes.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if data, ok := plainjson.Quote(string(t)); ok {
		return data, nil
	}
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	n := make([]int, len(t))
	for i := range len(t) {
		n[i] = int(t[i])
	}
	return json.Marshal(n)
}

func (t *text) UnmarshalJSON(data []byte) error {
	if s, ok := plainjson.Unquote(data); ok {
		*t = text(s)
		return nil
	}
	if len(data) > 0 && data[0] == '[' {
		var n []uint16
		if err := json.Unmarshal(data, &n); err != nil {
			return err
		}
		b := make([]byte, len(n))
		for i, v := range n {
			if v > 255 {
				return errors.New("no byte")
			}
			b[i] = byte(v)
		}
		*t = text(b)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

func texts(list []string) []text {
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func plain(list []text) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

type projectRecord struct {
	Seen    int64 `json:"seen"`              // the first time
	Scanned int64 `json:"scanned,omitempty"` // the last time
}

type fileRecord struct {
	Path       text   `json:"path"`    // absolute
	Project    text   `json:"project"` // the root through which it was registered
	Registered int64  `json:"registered"`
	Modified   int64  `json:"last_modified,omitempty"`
	Copy       text   `json:"last_approved_copy_path,omitempty"`
	Deleted    bool   `json:"is_deleted,omitempty"`
	Updated    int64  `json:"updated,omitempty"` // when Modified and Deleted were found out
	Mode       uint32 `json:"mode,omitempty"`
}

type backupRecord struct {
	Name  text         `json:"name"` // in the directory of backups
	Size  int64        `json:"size"`
	Mode  uint32       `json:"mode"` // permission bits of the original
	Made  int64        `json:"made"`
	Whose string       `json:"execution,omitempty"`
	Owner *ownerRecord `json:"owner,omitempty"` // of the original; nil: not known
}

type changeRecord struct {
	Kind    Kind   `json:"kind"`
	Root    int    `json:"root,omitempty"` // of the execution's roots
	Path    text   `json:"path"`
	Mode    uint32 `json:"mode,omitempty"`
	OldMode uint32 `json:"old_mode,omitempty"`
	Size    int64  `json:"size,omitempty"`
	OldSize int64  `json:"old_size,omitempty"`
	Before  text   `json:"before,omitempty"` // a name in the execution's directory
	Dropped bool   `json:"dropped,omitempty"`
	// DroppedAt is the time of that drop, by which its undo knows it.
	DroppedAt int64 `json:"dropped_at,omitempty"`
	Runs      text  `json:"runs,omitempty"`
}

type executionRecord struct {
	ID       string         `json:"id"`
	Session  text           `json:"session,omitempty"`
	Command  []text         `json:"command"`
	Dir      text           `json:"dir,omitempty"`
	Roots    []text         `json:"roots,omitempty"`
	Began    int64          `json:"began"`
	Ended    int64          `json:"ended,omitempty"`
	ExitCode int            `json:"exit_code,omitempty"`
	Signal   text           `json:"signal,omitempty"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Denied   []text         `json:"denied,omitempty"`
	Network  text           `json:"network,omitempty"`
	Backend  text           `json:"backend,omitempty"`
	Engine   text           `json:"engine,omitempty"`
	State    text           `json:"state,omitempty"`
	Settled  int64          `json:"settled,omitempty"` // when State was found out
	Changes  []changeRecord `json:"changes,omitempty"`
	More     int            `json:"more,omitempty"`
}

type permissionRecord struct {
	Project  text     `json:"project,omitempty"`
	Action   Action   `json:"action"`
	Target   text     `json:"target"`
	Decision Decision `json:"decision"`
	Time     int64    `json:"time"`
}

// decode reads a record. What it cannot be is an error.
func decode(data []byte, to any) error {
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return check(to)
}

// check refuses a record that this package did not write.
func check(record any) error {
	ok := true
	switch rec := record.(type) {
	case *fileRecord:
		ok = filepath.IsAbs(string(rec.Path)) && clean(string(rec.Path))
	case *backupRecord:
		_, _, name := parseBackup(string(rec.Name))
		ok = name && rec.Size >= 0
	case *executionRecord:
		ok = isExecution(rec.ID) && rec.More >= 0
		for _, c := range rec.Changes {
			ok = ok && c.Kind.Valid() && c.Root >= 0 && c.Root < len(rec.Roots) && goodPath(string(c.Path)) && (c.Before == "" || isBefore(string(c.Before)))
		}
	case *permissionRecord:
		ok = rec.Action.check() == nil && (rec.Decision == Allow || rec.Decision == Deny)
	}
	if !ok {
		return damaged("a record has an invalid field")
	}
	return nil
}

func clean(path string) bool { return filepath.Clean(path) == path && !strings.ContainsRune(path, 0) }

// goodPath reports whether path is one of an object below a root.
func goodPath(path string) bool { return path != "." && filepath.IsLocal(path) && clean(path) }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // nothing that is stored can fail
	}
	return data
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// bits are the permission bits of a mode with the bits for setuid, setgid and sticky, as
// stat(2) has them, and of the type what is needed.
func bits(m fs.FileMode) uint32 {
	b := uint32(m.Perm())
	switch m.Type() {
	case 0:
	case fs.ModeDir:
		b |= 0o040000
	case fs.ModeSymlink:
		b |= 0o120000
	default:
		b |= 0o010000 // anything else that is not a file
	}
	return b
}

func unbits(b uint32) fs.FileMode {
	m := fs.FileMode(b & 0o777)
	switch b &^ 0o777 {
	case 0:
	case 0o040000:
		m |= fs.ModeDir
	case 0o120000:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular
	}
	return m
}

// A line of the journal is a checksum, a space, an op as JSON and a newline. Each is
// written with a newline in front: one that a killed process wrote half of ends there.
type op struct {
	Execution *executionRecord `json:"execution,omitempty"`
	Files     []fileOp         `json:"files,omitempty"`
	Settle    *settleOp        `json:"settle,omitempty"`
	Drop      *dropOp          `json:"drop,omitempty"`
}

// fileOp is what was found out about a registered file.
type fileOp struct {
	ID       uint64        `json:"id,omitempty"`   // one of these two
	Path     text          `json:"path,omitempty"` //
	Project  text          `json:"project,omitempty"`
	Backup   *backupRecord `json:"backup,omitempty"`
	Copy     text          `json:"copy,omitempty"` // where that is
	Date     string        `json:"date,omitempty"` // its day
	Time     int64         `json:"time,omitempty"` // zero: what follows is not known
	There    bool          `json:"there,omitempty"`
	Modified int64         `json:"last_modified,omitempty"`
	Mode     uint32        `json:"mode,omitempty"`
}

type settleOp struct {
	Session text  `json:"session"`
	State   text  `json:"state"`
	Time    int64 `json:"time"`
}

// dropOp is what was taken out of a session, or is in it again.
type dropOp struct {
	Session text   `json:"session"`
	Names   []text `json:"names"` // absolute
	Time    int64  `json:"time"`
	Back    bool   `json:"back,omitempty"` // it is in the session again
}

const (
	maxLine = 64 << 20 // bytes

	// namesMost bounds the names in one line, in bytes. JSON makes them six times as long at most.
	namesMost = 4 << 20
)

func encodeLine(o *op) []byte {
	data := encode(o)
	line := make([]byte, 0, len(data)+19)
	line = append(line, '\n')
	line = fmt.Appendf(line, "%016x ", checksum(data))
	return append(append(line, data...), '\n')
}

// checksum is FNV-64a: the tables of others cost every start of the program something.
func checksum(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}

// decodeLine reads a line without its newline.
func decodeLine(line []byte) (*op, error) {
	if len(line) < 17 || len(line) > maxLine || line[16] != ' ' {
		return nil, damaged("a line of the journal is cut short")
	}
	sum, err := strconv.ParseUint(string(line[:16]), 16, 64)
	if err != nil || sum != checksum(line[17:]) {
		return nil, damaged("a line of the journal is cut short")
	}
	o := new(op)
	if err := json.Unmarshal(line[17:], o); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if o.Execution != nil {
		if err := check(o.Execution); err != nil {
			return nil, err
		}
	}
	for _, f := range o.Files {
		_, _, name := "", "", true
		if f.Backup != nil {
			_, _, name = parseBackup(string(f.Backup.Name))
		}
		if f.ID == 0 && (!filepath.IsAbs(string(f.Path)) || !clean(string(f.Path))) || !name || f.Backup != nil && !isDate(f.Date) {
			return nil, damaged("a line of the journal has an invalid field")
		}
	}
	return o, nil
}
