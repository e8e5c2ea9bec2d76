//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/overlay"
)

// report is the structured half of a result; docs/json.md describes it. Some clients show models only this half, so it
// has the text, too, and a limited list of changes.
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
	Held         []jsonform.Held   `json:"held"`
	Denied       []nsrun.Refusal   `json:"denied"`
	Unsandboxed  string            `json:"unsandboxed"`
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

// noOutput replaces an empty text, which some clients refuse.
const noOutput = "(no output)"

func (s *server) result(res nsrun.Result, in mcpargs.Input) *mcp.CallToolResult {
	text := res.String()
	switch {
	case text == "":
		text = noOutput
	case !res.Started: // one line about it
		text = strings.TrimSuffix(text, "\n")
	}
	if notes := s.notes(res, in); notes != "" {
		text = strings.TrimSuffix(text, "\n") + "\n" + notes
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
		Held:    jsonform.HeldBack(res.Held[:min(len(res.Held), maxChanges)]),
		Denied:  append([]nsrun.Refusal{}, res.Refusals[:min(len(res.Refusals), maxChanges)]...),
		Notices: notices(res.Notices), Unsandboxed: res.Unsandboxed,
		Output: output{res.Stdout.Cut > 0 || res.Stderr.Cut > 0},
	}
	if res.Started {
		rep.ExitCode, rep.Network.Mode = &res.ExitCode, res.Network.Mode
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

// notes are lines that begin with "NOTE: ", about what a model or its user can do about an unwanted result.
func (s *server) notes(res nsrun.Result, in mcpargs.Input) string {
	var b strings.Builder
	if d := res.Network.Denied(); len(d) > 0 {
		more, with := "", d[0].AllowWith
		if len(d) > 1 {
			more = fmt.Sprintf(", and %d more", len(d)-1)
		}
		if with != "" {
			with = ": the user can allow it with nsrun mcp " + with
		}
		fmt.Fprintf(&b, "NOTE: network: %s was denied%s%s\n", nsrun.TargetText(d[0]), more, with)
	}
	if res.Network.Refused > 0 && !in.Network {
		b.WriteString("NOTE: network: there is none, and the command tried to use it: `network` set to true asks the user; the user can allow hosts with nsrun mcp --allow-net RULE\n")
	}
	if list := res.FileRefusals(); len(list) > 0 {
		flag := ""
		if list[0].Flag != "" {
			flag = ": the user can allow it with nsrun mcp " + list[0].Flag
		}
		list[0].Flag = ""
		fmt.Fprintf(&b, "NOTE: denied: %s%s\n", list[0], flag)
	}
	if res.Err != nil && res.Started && res.Session != "" && res.State == overlay.Kept && s.options.After == mcpargs.Commit {
		fmt.Fprintf(&b, "NOTE: The changes are not in the project, and not lost: they are kept as session %[1]s; the user sees them with nsrun diff %[1]s and decides with nsrun review %[1]s, or nsrun commit %[1]s --merge\n", res.Session)
	}
	return b.String()
}

func notices(list []nsrun.Notice) []string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = n.Text
	}
	return texts
}
