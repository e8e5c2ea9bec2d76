//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/mcpargs"
)

const toolName = "run_command"

func about(o *mcpargs.Options, c nsrun.Config) (project, changes, end string) {
	project = "the project directory, " + escape.Printable(c.Project)
	for _, f := range c.Shared {
		project += ", and " + escape.Printable(f.Path)
	}
	switch o.After {
	case mcpargs.Commit:
		changes = "What a command changes there is in the project when the command has ended, and the user can undo it. Files that other programs would run later by themselves (git hooks, settings of editors and agents, .envrc and the like) are held back until the user commits them."
	case mcpargs.Keep:
		changes = "Later commands see what a command changes there. Nobody else does until the user commits it: other tools see the files as they were."
	case mcpargs.Discard:
		changes = "What a command changes there is discarded when the command has ended."
	}
	end = "When a command ends, everything that it started ends, too: nothing keeps running in the background."
	if o.Timeout > 0 {
		end += fmt.Sprintf(" A command is ended after %s.", o.Timeout)
	}
	return project, changes, end
}

func unsandboxed(c nsrun.Config) bool {
	if c.Sandbox != nsrun.SandboxPreferred {
		return c.Sandbox == nsrun.SandboxDisabled
	}
	a := nsrun.Check()
	return a.Status == nsrun.NotSupported || c.Backend == nsrun.NativeBackend && a.Backend != nsrun.NativeBackend
}

const withoutSandbox = "There is NO SANDBOX: commands can do everything that the user can. They can write everywhere, their changes take effect at once, and they reach the network."

func instructions(o *mcpargs.Options, c nsrun.Config) string {
	if unsandboxed(c) {
		return "Runs shell commands: " + toolName + ". " + withoutSandbox
	}
	project, changes, _ := about(o, c)
	return "Runs shell commands in a sandbox: " + toolName + ". They can write to " + project +
		", and to $HOME/playground; everything else is read-only, and secrets are hidden. " + changes +
		" There is no network" + reached(c) + ", unless `network` is true and the user, who is asked every time, allows it."
}

// reached is what commands can reach without a question, if anything.
func reached(c nsrun.Config) string {
	if len(c.Net.Rules) == 0 {
		return ""
	}
	list := make([]string, len(c.Net.Rules))
	for i, r := range c.Net.Rules {
		list[i] = r.String()
	}
	return " but " + escape.Printable(strings.Join(list, ", "))
}

func description(o *mcpargs.Options, c nsrun.Config) string {
	const first = `Run a terminal command in the project's root directory (or specified working directory) and return the output: standard output, then standard error, then the exit code if it is not zero. Text that starts with "ERROR: " says why a command was not run, or was not run to its end.`
	if unsandboxed(c) {
		return first + "\n\n" + withoutSandbox + "\n\nStandard input is empty."
	}
	project, changes, end := about(o, c)
	var more strings.Builder
	for _, p := range c.Rules {
		if p.Mode == nsrun.Direct {
			fmt.Fprintf(&more, "\n  - %s", escape.Printable(p.Pattern))
		}
	}
	home := ""
	if c.Home == nsrun.HomeLayer {
		home = "\n  - the rest of $HOME, such as caches and settings: only later commands of this project see what is written there; the user does not"
	}
	return first + `

File System Permissions:
- The command normally works in the project directory and has read-write access to:
  - ` + project + `
  - $HOME/playground (playground directory for experiments, where $HOME is the user's home directory)
  - /tmp, which is private to each command, and gone after it` + home + more.String() + `
- Everything else is read-only, and files with secrets (keys, tokens) cannot be read.
- ` + changes + `

Network Access:
- By default, this tool does not have access to the network` + reached(c) + `.
- If you require access to the network, you must set the ` + "`network`" + ` parameter to ` + "`true`" + `. The user is asked every time; if they say no, the command is not run.
- For fetching websites or web content, use a tool that is made for it instead of this one, if you have one.

Standard input is empty. ` + end + `

If the command fails, you should handle the error gracefully and provide a helpful error message to the user.`
}

const inputSchema = `{
  "type": "object",
  "properties": {
    "command": {
      "type": "string",
      "description": "The terminal command to run, by /bin/sh -c."
    },
    "working_dir": {
      "type": "string",
      "description": "The working directory where the command will be executed. Should be an absolute path. Defaults to the project directory. Special case: \"playground\" is normalized to $HOME/playground (user's home directory)."
    },
    "network": {
      "type": "boolean",
      "default": false,
      "description": "Whether to allow network access. Defaults to false. The user is asked every time. For fetching websites or web content, use a tool that is made for it instead."
    }
  },
  "required": ["command"],
  "additionalProperties": false
}`

const outputSchema = `{
  "type": "object",
  "properties": {
    "text": {"type": "string", "description": "Standard output, then standard error, then the exit code if it is not zero; ERROR: and the reason, if the command was not run, or was not run to its end."},
    "exit_code": {"type": ["integer", "null"], "description": "null: the command was not run."},
    "signal": {"type": "string"},
    "timed_out": {"type": "boolean"},
    "not_approved": {"type": "boolean"},
    "error": {"type": "string"},
    "duration_ms": {"type": "integer"},
    "network": {"type": "object", "properties": {"mode": {"type": "string", "enum": ["none", "host", "kernel", "broker"]}}, "required": ["mode"]},
    "session": {"type": "string"},
    "state": {"type": "string", "enum": ["kept", "committed", "discarded"]},
    "engine": {"type": "string"},
    "changes": {"type": "array", "items": {"type": "object", "properties": {
      "kind": {"type": "string", "enum": ["added", "modified", "deleted", "type"]},
      "root": {"type": "string"},
      "path": {"type": "string"},
      "mode": {"type": "string"},
      "size": {"type": "integer"},
      "aspects": {"type": "array", "items": {"type": "string"}},
      "below": {"type": "integer"},
      "special": {"type": "string"},
      "runs": {"type": "string"}
    }, "required": ["kind", "root", "path", "mode", "size"]}},
    "changes_total": {"type": "integer", "description": "How many changes there are; the list ends after the first ones."},
    "held": {"type": "array", "description": "Changes that are not in the project, because other programs would run these files later by themselves; the user decides.", "items": {"type": "object", "properties": {
      "root": {"type": "string"},
      "path": {"type": "string"},
      "reason": {"type": "string"}
    }, "required": ["root", "path", "reason"]}},
    "denied": {"type": "array", "description": "What the command was refused, as far as that is known.", "items": {"type": "object", "properties": {
      "kind": {"type": "string", "description": "read, write, exec, connect, socket or unix"},
      "op": {"type": "string"},
      "path": {"type": "string"},
      "rule": {"type": "string"},
      "why": {"type": "string"},
      "allow_with": {"type": "string", "description": "The flag with which the user can allow it; empty: none."},
      "count": {"type": "integer"},
      "pid": {"type": "integer"},
      "program": {"type": "string"}
    }, "required": ["kind", "op", "path", "rule", "why", "allow_with", "count"]}},
    "unsandboxed": {"type": "string", "description": "Why the command ran without a sandbox; empty: it had one."},
    "notices": {"type": "array", "items": {"type": "string"}},
    "output": {"type": "object", "properties": {"truncated": {"type": "boolean"}}, "required": ["truncated"]}
  },
  "required": ["text", "exit_code", "signal", "timed_out", "not_approved", "error", "duration_ms", "network", "session", "state", "engine", "changes", "changes_total", "held", "denied", "unsandboxed", "notices", "output"]
}`

func tool(o *mcpargs.Options, c nsrun.Config) *mcp.Tool {
	title := "Run a command in a sandbox"
	if unsandboxed(c) {
		title = "Run a command"
	}
	t := &mcp.Tool{
		Name:        toolName,
		Title:       title,
		Description: description(o, c),
		InputSchema: json.RawMessage(inputSchema),
		// The protocol's defaults apply: the tool can destroy, and reach the network.
		Annotations: &mcp.ToolAnnotations{},
	}
	if !o.TextOnly {
		t.OutputSchema = json.RawMessage(outputSchema)
	}
	return t
}
