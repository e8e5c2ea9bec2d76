//go:build linux

package advice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// An Error is an error with a hint.
type Error struct {
	error
	hint string // "try: …"
}

func (e *Error) Unwrap() error { return e.error }

// With returns err with a hint. With an empty hint, For adds no other.
func With(err error, hint string) error { return &Error{err, hint} }

// Unknown returns an error about something that does not exist; the command try lists what does.
func Unknown(try, format string, args ...any) error {
	return With(fmt.Errorf(format, args...), "try: "+try)
}

// For returns the hint for an error, or "". It is long because each kind of error has a case of its own.
func For(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.hint
	}
	if _, ok := errors.AsType[interface {
		error
		Try() string
	}](err); ok {
		return "" // it says what to do
	}
	if e, ok := errors.AsType[*features.MissingError](err); ok && e.Feature.Status == features.No && e.Feature.Remedy != "" {
		return "" // so does this one
	}
	if errors.Is(err, unix.EMFILE) {
		return fewFilesHint()
	}
	if text := Surroundings(err); text != "" {
		return text
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok {
		switch e.Op {
		case nsexec.StepClone:
			if errors.Is(e.Err, unix.ENOSPC) || errors.Is(e.Err, unix.EUSERS) {
				return "" // it says what to do
			}
			return "try: nsrun doctor"
		case nsexec.StepUIDMap, nsexec.StepGIDMap, nsexec.StepLauncher, nsexec.StepSeccomp:
			return "try: nsrun doctor"
		case nsexec.StepLandlock:
			if e.Path == nsexec.AbstractSockets {
				return "try: --net-by broker with rules, --allow-unix @ with --net host"
			}
		case nsexec.StepOverlay:
			return "try: nsrun doctor, or nsrun run --direct"
		case nsexec.StepExec:
			if errors.Is(e.Err, unix.ENOENT) && ShellText(e.Path) {
				return "to run a shell command line: " + escape.Command([]string{"nsrun", "run", "-c", e.Path})
			}
		case nsexec.StepChdir:
			return "try: nsrun run -C DIR, or --ro DIR to show it"
		}
		if setup(e) && e.Op != "fork" { // which says what to do
			return setupHint()
		}
	}
	if _, ok := errors.AsType[*nsrunlib.MountError](err); ok {
		return "try: nsrun run --direct"
	}
	if errors.Is(err, nsrunlib.ErrProject) || errors.Is(err, overlay.ErrRoot) {
		return "try: nsrun run --project DIR"
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok && errors.Is(e, overlay.ErrNoSession) {
		return noSessionHint(e.Path)
	}
	if e, ok := errors.AsType[*overlay.WaitError](err); ok && e.Holder.Stopped {
		return fmt.Sprintf("to continue it: kill -CONT %d", e.Holder.PID)
	}
	if errors.Is(err, overlay.ErrBusy) {
		return "its command has not ended, or another nsrun works with it; try: nsrun ls"
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok && e.Syscall == "getwd" && errors.Is(err, fs.ErrNotExist) {
		return "the current directory was removed; try: cd DIR"
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok && features.Filtered() && (errors.Is(e, unix.EPERM) || errors.Is(e, unix.ENOSYS) || errors.Is(e, unix.EACCES)) {
		return underFilter()
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok {
		if text := sessionHint(e); text != "" {
			return text
		}
	}
	if errors.Is(err, overlay.ErrEnded) {
		return "try: nsrun ls"
	}
	if errors.Is(err, overlay.ErrNoCommit) {
		return "try: nsrun ls, and nsrun undo SESSION"
	}
	if e, ok := errors.AsType[*project.Error](err); ok && errors.Is(err, project.ErrDamaged) && filepath.Base(e.Path) == "registry.db" {
		return "try: mv " + escape.Command([]string{e.Path, e.Path + ".damaged"})
	}
	if errors.Is(err, overlay.ErrLeftOut) {
		return "try: nsrun commit with .git/objects, or without the index"
	}
	if errors.Is(err, overlay.ErrNoChange) {
		return "try: nsrun show"
	}
	return fullHint(err)
}

// fullHint is the hint for a full disk and for a quota, or "". The kernel says the same of other limits.
func fullHint(err error) string {
	at, file := errors.AsType[*fs.PathError](err)
	if file && at.Path == os.Stdout.Name() {
		return "" // that may be anywhere
	}
	path := ""
	if file {
		path = at.Path
	} else if e, ok := errors.AsType[*overlay.Error](err); ok {
		path = e.Path
	} else {
		return ""
	}
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && withSessions(path) {
		return "try: nsrun gc --older 0, which frees space at the price of undo"
	}
	return ""
}

// withSessions reports whether the sessions are on the disk of a path, or may be.
func withSessions(path string) bool {
	dir, err := overlay.DefaultDir()
	var own, at unix.Stat_t
	if err != nil || !filepath.IsAbs(path) || unix.Stat(dir, &own) != nil {
		return true
	}
	for unix.Stat(path, &at) != nil && path != "/" {
		path = filepath.Dir(path)
	}
	return at.Dev == own.Dev
}

// sessionHint is the hint for an operation on a session that the system refused, or "".
func sessionHint(e *overlay.Error) string {
	switch {
	case errors.Is(e, unix.ENAMETOOLONG):
		return "try: nsrun commit --exclude PATH"
	case errors.Is(e, unix.EROFS) && (e.Op == "commit" || e.Op == "undo"):
		return "the session stays; try: nsrun diff --patch, for another copy of the project"
	case errors.Is(e, overlay.ErrNumbers), errors.Is(e, overlay.ErrTimes):
		return "the session stays; try: nsrun diff --patch, and git apply, or nsrun run --direct"
	case errors.Is(e, overlay.ErrNoLinks):
		return "try: " + escape.Command([]string{"nsrun", "commit", "--exclude", e.Path})
	case errors.Is(e, unix.EXDEV) && e.Op == "make upper directory":
		return "try: nsrun run --direct"
	case errors.Is(e, overlay.ErrLost):
		return "copy from there what you need; try: nsrun gc " + filepath.Base(e.Path) + ", which removes it"
	case isOwner(e):
		return ownerHint(e)
	case errors.Is(e, unix.EACCES) && (e.Op == "list" || e.Op == "look at"):
		return closedHint(e)
	case errors.Is(e, fs.ErrNotExist) && e.Op == "open root":
		return "the project was moved or removed; its session can be used again when the project is back there"
	}
	return ""
}

func isOwner(err error) bool {
	_, ok := errors.AsType[*overlay.OwnerError](err)
	return ok
}

// ownerHint is the hint for a file of which a commit can make no new version. If the project has it, its owner can give
// it another group.
func ownerHint(e *overlay.Error) string {
	var st unix.Stat_t
	if unix.Lstat(e.Path, &st) == nil && int(st.Uid) == unix.Geteuid() {
		return "try: " + escape.Command([]string{"chgrp", strconv.Itoa(unix.Getegid()), e.Path}) + ", and then again"
	}
	return "try: " + escape.Command([]string{"nsrun", "commit", "--exclude", e.Path})
}

// closedHint is the hint for a directory of the project that its owner, the caller, may not look into, or "". A session
// looks into it all the same, unless user namespaces are refused or it belongs to another group.
func closedHint(e *overlay.Error) string {
	dir := e.Path
	var st unix.Stat_t
	for unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
	if int(st.Uid) != unix.Geteuid() || st.Mode&unix.S_IRWXU == unix.S_IRWXU {
		return ""
	}
	return "try: " + escape.Command([]string{"chmod", "u+rwx", dir}) + ", and then again"
}

// fewFilesHint is the hint for EMFILE.
func fewFilesHint() string {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1024 {
		return "try: ulimit -n"
	}
	return fmt.Sprintf("the limit is %d; raise it where it was lowered: ulimit -n 1024", limit.Cur)
}

// ShellText reports whether a word looks like a command line for a shell.
func ShellText(word string) bool { return strings.ContainsAny(strings.TrimSpace(word), " \t\n;|&<>$`") }

// sessionOf returns the session of the execution with an id, if both still exist, or "".
func sessionOf(word string) string {
	if !project.IsExecution(word) && len(word) != 8 {
		return ""
	}
	reg := project.Open(project.Options{})
	defer reg.Close()
	for e, err := range reg.Executions(project.Filter{ID: word, Most: 1}) {
		if err != nil || e.Session == "" {
			return ""
		}
		s, err := overlay.OpenReadOnly("", e.Session)
		if err != nil {
			return ""
		}
		_ = s.Close()
		return e.Session
	}
	return ""
}

// noSessionHint is the hint for a word that should name a session and does not.
func noSessionHint(word string) string {
	_, err := os.Lstat(word)
	if id := sessionOf(word); id != "" && err != nil {
		return "that is a command in the log; its session is " + id
	}
	if err != nil && !strings.ContainsAny(word, "/.*") {
		return "try: nsrun ls"
	}
	switch verb := os.Args[min(1, len(os.Args)-1)]; verb {
	case "diff", "commit", "drop":
		return "a session comes before paths; try: " + escape.Command([]string{"nsrun", verb, "last", word})
	}
	instead := map[string]string{"discard": "drop last", "undo": "restore"}[os.Args[min(1, len(os.Args)-1)]]
	if instead == "" {
		return "a path is not a session; try: nsrun ls, and nsrun diff last PATH"
	}
	return "a path is not a session; try: nsrun " + instead + " " + escape.Command([]string{word})
}
