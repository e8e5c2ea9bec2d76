//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPipe: what is written into a pipe that ends then is answered, all of it.
func TestPipe(t *testing.T) {
	const (
		initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		// Nothing changes here, so there is nothing to wait for.
		listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///x"]},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"sh","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	)
	p := newPlace(t)
	initialize := func(capabilities string) string {
		return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{` +
			capabilities + `},"clientInfo":{"name":"sh","version":"1"}}}`
	}
	call := func(id any, command, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"run_command","arguments":{"command":%q%s}}}`, id, command, more)
	}
	many := []string{initialize(""), initialized}
	want := map[string]string{"0": `"serverInfo"`}
	for i := 1; i <= atOnce+8; i++ {
		many = append(many, call(i, fmt.Sprintf("sleep 0.1; echo said $((%d + 1000))", i), ""))
		want[fmt.Sprint(i)] = fmt.Sprintf(`said %d\n`, i+1000)
	}
	for name, c := range map[string]struct {
		in   []string
		want map[string]string // by id
	}{
		"nothing":           {nil, nil},
		"a notification":    {[]string{initialized}, nil},
		"initialize":        {[]string{initialize("")}, map[string]string{"0": `"serverInfo"`}},
		"a command":         {[]string{initialize(""), initialized, call(1, "echo here; sleep 0.2; echo there", "")}, map[string]string{"0": "", "1": `here\nthere\n`}},
		"many commands":     {many, want},
		"the list of tools": {[]string{initialize(""), initialized, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}, map[string]string{"0": "", "1": toolName}},
		"a batch":           {[]string{initialize(""), "[" + initialized + "," + call(1, "echo here", "") + "]"}, map[string]string{"0": "", "1": `here\n`}},
		"garbage":           {[]string{"initialize", "{", "[]"}, map[string]string{"null": "-32"}},
		"garbage at last":   {[]string{initialize(""), initialized, call(1, "sleep 0.2; echo here", ""), "garbage"}, map[string]string{"0": "", "1": `here\n`, "null": "-32700"}},
		"no such method":    {[]string{initialize(""), `{"jsonrpc":"2.0","id":1,"method":"nothing/such"}`}, map[string]string{"0": "", "1": "error"}},
		"a command that was taken back": {[]string{initialize(""), initialized, call(1, "sleep 3000.5", ""), cancelled},
			map[string]string{"0": "", "1": ""}},
		"an id that is in use": {[]string{initialize(""), initialized, call(1, "sleep 0.3; echo here", ""), call(1, "echo there", "")},
			map[string]string{"0": "", "1": `here\n`, "null": "same id"}},
		"a subscription": {[]string{listen}, map[string]string{"1": "complete"}},
		"a question that nobody can answer": {[]string{initialize(`"elicitation":{}`), initialized, call(1, "true", `,"network":true`)},
			map[string]string{"0": "", "1": errEnded.Error()}},
	} {
		for _, end := range []string{"\n", ""} {
			if end == "" && len(c.in) > atOnce {
				continue
			}
			cmd := p.command()
			cmd.Stdin = strings.NewReader(strings.Join(c.in, "\n") + end)
			var out, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &said
			if err := cmd.Run(); err != nil || said.Len() > 0 {
				t.Errorf("%s: %v, standard error %q", name, err, said.String())
			}
			got := map[string]string{}
			for line := range strings.Lines(out.String()) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Errorf("%s: %v: %q", name, err, line)
				}
				if m.Method == "" {
					got[string(m.ID)] += line
				}
			}
			for id, text := range c.want {
				if !strings.Contains(got[id], text) || got[id] == "" {
					t.Errorf("%s: the answer to %s is %q, want %q", name, id, got[id], text)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%s: more answers: %.500q", name, got)
			}
		}
	}
	if running("3000.5") {
		t.Error("a cancelled command runs")
	}
}

// TestFile: standard output may be a file.
func TestFile(t *testing.T) {
	p := newPlace(t)
	out, err := os.Create(p.at("answers"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := p.command()
	cmd.Stdin, cmd.Stdout = strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"ping"}`), out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got := p.content("answers"); !strings.Contains(got, `"id":7`) {
		t.Errorf("%q", got)
	}
}
