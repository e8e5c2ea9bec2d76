//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/plan"
)

// Error says what could not be done, with which path, and why. Err keeps the errno.
type Error struct {
	Op   string
	Path string // empty: none
	Err  error
}

func (e *Error) Error() string { return (*plan.Error)(e).Error() }

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is true for ErrProject and ErrDevice.
func (e *Error) Is(target error) bool {
	return target == ErrProject && e.Op == plan.OpUse || target == ErrDevice && e.Op == plan.OpDevice
}

// ErrDevice is what Run and Start return for one of Config.Devices that commands cannot use.
var ErrDevice = errors.New("this device cannot be used")

// DirError says that the working directory of a Request cannot be used. Nothing was run.
type DirError struct {
	Path string
	Err  error // usually *nsexec.Error
}

func (e *DirError) Error() string {
	why := "does not exist"
	switch {
	case errors.Is(e.Err, syscall.ENOTDIR):
		why = "is not a directory"
	case errors.Is(e.Err, syscall.EACCES):
		why = "cannot be entered"
	}
	return "working directory " + why + ": " + escape.Printable(e.Path)
}

func (e *DirError) Unwrap() error { return e.Err }

// RuleError is a mistake in a rule. Nothing was run.
type RuleError struct {
	Rule  Rule
	Index int // of the rule, in Config.Rules or Request.Paths
	Err   error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("rule %s %s: %s", e.Rule.Mode, escape.Quote(e.Rule.Pattern), e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// MountError is a folder that the kernel does not accept as a layer of an overlay, because
// something is mounted in it: in a user namespace the overlay could show what the mount hides.
type MountError struct {
	Folder string
	Below  string // where something is mounted in it
}

func (e *MountError) Error() string { return (*plan.MountError)(e).Error() }

// RecordError says that something was done, but that the Recorder returned an error.
type RecordError struct{ Err error }

func (e *RecordError) Error() string { return "record: " + e.Err.Error() }

func (e *RecordError) Unwrap() error { return e.Err }

// ErrorText is an error as a model reads it: one line that starts with "ERROR: ".
func ErrorText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // errors that were joined
	r, n := utf8.DecodeRuneInString(text)
	return "ERROR: " + escape.Printable(string(unicode.ToUpper(r))+text[n:])
}

// public turns an error of the packages below into one that embedders know, about a command with these rules.
func public(err error, config, request []Rule) error {
	switch e := err.(type) {
	case *plan.Error:
		return (*Error)(e)
	case *plan.MountError:
		return (*MountError)(e)
	case *plan.RuleError:
		if e.Asked {
			return &RuleError{request[e.Index], e.Index, e.Err}
		}
		return &RuleError{config[e.Index], e.Index, e.Err}
	}
	return err
}

var errNobody = errors.New("there is nobody to ask")

// ErrClosed is what Run, Start, Commit and Discard return after Runner.Close.
var ErrClosed = errors.New("the Runner was closed")
