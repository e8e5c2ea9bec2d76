//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// sessionReport is a session in `ls --json` and `show --json`. The keys are stable.
type sessionReport struct {
	ID      string        `json:"session"`
	State   overlay.State `json:"state"`
	Engine  string        `json:"engine"` // overlay, tmpfs or copy
	Created time.Time     `json:"created"`
	Command []string      `json:"command"`
	Roots   []string      `json:"roots"`
	Busy    bool          `json:"busy"`       // a command runs in it, or somebody decides about it
	Size    *int64        `json:"size"`       // bytes on disk; null: not measured
	On      string        `json:"on"`         // the session that it was begun on; empty: none
	Later   *int          `json:"runs_later"` // how many of its changes would run later; null: not counted

	// Unsynced: the machine was restarted before the session was on disk, so files in it may be cut off.
	Unsynced bool `json:"unsynced"`

	interrupted bool
}

func describe(in overlay.Info) sessionReport {
	r := sessionReport{ID: in.ID, State: in.State, Engine: in.Engine.String(), Created: in.Created, Command: in.Command, Roots: []string{}, Busy: in.Busy, On: in.On}
	r.interrupted, r.Unsynced = in.Interrupted, in.Unsynced
	if r.Command == nil {
		r.Command = []string{}
	}
	for _, root := range in.Roots {
		r.Roots = append(r.Roots, root.Path)
	}
	return r
}

// state is the state for people: if another process holds a session open, it runs a command in it, or is deciding about
// it.
func (r sessionReport) state() string {
	switch {
	case r.Busy:
		return "running"
	case r.interrupted:
		return "interrupted"
	}
	s := r.State.String()
	if r.Unsynced {
		s += ", perhaps cut off"
	}
	if r.Later != nil && *r.Later > 0 {
		s += fmt.Sprintf(", %d run later", *r.Later)
	}
	return s
}

// size is the size for people.
func (r sessionReport) size() string {
	if r.Size == nil {
		return "-"
	}
	return console.Size(*r.Size)
}
