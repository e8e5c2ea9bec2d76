//go:build linux

package main

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/overlay"
)

// report is the structured half of a result; docs/json.md has its keys, which are stable
// and named as in the report of nsrun run. Some clients show models nothing but it, so
// the text is in it too, and the list of changes has an end.
type report struct {
	Text         string            `json:"text"`
	ExitCode     *int              `json:"exit_code"`
	Signal       string            `json:"signal"`
	TimedOut     bool              `json:"timed_out"`
	NotApproved  bool              `json:"not_approved"`
	Error        string            `json:"error"`
	DurationMS   int64             `json:"duration_ms"`
	Network      network           `json:"network"`
	Session      string            `json:"session"`
	State        string            `json:"state"`
	Engine       string            `json:"engine"`
	Changes      []jsonform.Change `json:"changes"`
	ChangesTotal int               `json:"changes_total"`
	Notices      []string          `json:"notices"`
	Output       output            `json:"output"`
}

type network struct {
	Mode string `json:"mode"`
}

type output struct {
	Truncated bool `json:"truncated"`
}

// maxChanges is how many changes a result lists: models read it.
const maxChanges = 50

// noOutput stands where there is nothing to read: some clients, and the interfaces of
// models behind them, take no empty texts.
const noOutput = "(no output)"

// result is a Result as the protocol has it.
func (s *server) result(res nsrun.Result, in mcpargs.Input) *mcp.CallToolResult {
	text := res.String()
	switch {
	case text == "":
		text = noOutput
	case !res.Started: // one line about it
		text = strings.TrimSuffix(text, "\n")
	}
	r := &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
		IsError: res.Err != nil || res.TimedOut,
	}
	if s.options.TextOnly {
		return r
	}
	rep := report{
		Text: text, Signal: res.SignalName(), TimedOut: res.TimedOut, NotApproved: res.Denied,
		DurationMS: res.Duration.Milliseconds(), Network: network{"none"},
		Session: res.Session, State: res.State.String(),
		ChangesTotal: len(res.Changes), Changes: jsonform.Changes(res.Changes[:min(len(res.Changes), maxChanges)]),
		Notices: append([]string{}, res.Notices...),
		Output:  output{res.Stdout.Cut > 0 || res.Stderr.Cut > 0},
	}
	if res.Started {
		rep.ExitCode = &res.ExitCode
		if in.Network {
			rep.Network.Mode = "host"
		}
	}
	if res.Session == "" { // nothing was kept
		rep.State = overlay.Discarded.String()
	}
	if res.Engine != 0 {
		rep.Engine = res.Engine.String()
	}
	if res.Err != nil {
		rep.Error = nsrun.ErrorText(res.Err)
	}
	r.StructuredContent = rep
	return r
}
