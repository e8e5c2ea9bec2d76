package bwrap

import "syscall"

// Stop is the error of a command line that does not ask for a sandbox.
type Stop uint8

// What it asks for instead.
const (
	// StopHelp: print the usage to standard output, exit with 0.
	StopHelp Stop = iota + 1
	// StopVersion: print the version to standard output, exit with 0.
	StopVersion
	// StopNoCommand: print the usage to standard error, exit with 1.
	StopNoCommand
)

// Error says what was asked for.
func (s Stop) Error() string {
	switch s {
	case StopHelp:
		return "help requested"
	case StopVersion:
		return "version requested"
	}
	return "no command given"
}

// Error is a command line that is refused.
type Error struct {
	// Text is the message without the program's name.
	Text string
	// Err is the system's error, if the message ends in one.
	Err error
	// Unknown is the word that is not an option, if that is what is wrong.
	Unknown string
}

// Error returns what follows "bwrap: " on standard error.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + Strerror(e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Strerror returns an error in the words of the C library, which begin with a
// capital. Errors that wrap none of the system's return their own text.
func Strerror(err error) string {
	for e := err; e != nil; {
		if errno, ok := e.(syscall.Errno); ok {
			s := errno.Error()
			if s != "" && 'a' <= s[0] && s[0] <= 'z' {
				s = string(s[0]-'a'+'A') + s[1:]
			}
			return s
		}
		w, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = w.Unwrap()
	}
	return err.Error()
}

// The severities of messages, as --level-prefix shows them.
const (
	SeverityError   = 3
	SeverityWarning = 4
)

// Message returns a line for standard error. Bubblewrap's start with "bwrap", whatever
// it is called; ours with the program's name.
func Message(program string, levelPrefix bool, severity int, text string) string {
	line := program + ": " + text + "\n"
	if levelPrefix {
		line = "<" + string(rune('0'+severity)) + ">" + line
	}
	return line
}
