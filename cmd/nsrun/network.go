//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
)

// mostDenied is how many refusals are printed; the report has all.
const mostDenied = 10

// tellNetwork says which access to the network was denied, or with --learn-net what the command reached.
func (r *runner) tellNetwork(res nsrunlib.Result) {
	if r.o.learnNet {
		if len(r.network.Rules) == 0 {
			text := "no rules are needed: the command reached nothing"
			if r.network.Mode == nsrunlib.BrokerEnforcer.String() {
				text += " (servers of this host at 127.0.0.1 need rules such as --allow-net tcp:127.0.0.1:PORT)"
			}
			console.Say("%s", text)
			return
		}
		console.Say("rules that would be enough:")
		for _, rule := range r.network.Rules {
			fmt.Fprintln(os.Stderr, "  --allow-net "+escape.Quote(rule))
		}
		return
	}
	if r.o.quiet {
		return
	}
	// With --why it is known why a command failed: other refusals are in the report only.
	told := func(target string) bool {
		return !r.o.why || res.ExitCode == 0 || res.TimedOut || slices.ContainsFunc(res.Refusals, func(d nsrunlib.Refusal) bool {
			return d.Failed && d.Target == target && (d.Kind == nsrunlib.RefusedConnect || d.Kind == nsrunlib.RefusedServe)
		})
	}
	if r.network.Refused > 0 && !r.refusal.told && told("") {
		text := noNetwork(r.o.command)
		for _, d := range res.Refusals { // ping(8) needs something else than rules
			if d.Kind == nsrunlib.RefusedConnect && d.Target == "" && d.Flag != "--learn-net" {
				text = "network: " + d.Why + tryFlag(d.Flag)
			}
		}
		console.Say("%s", text)
	}
	denied := slices.DeleteFunc(r.network.Denied(), func(d netpolicy.Decision) bool {
		return r.refusal.told && nsrunlib.TargetText(d) == r.refusal.target || !told(nsrunlib.TargetText(d))
	})
	for i, d := range denied {
		if i == mostDenied {
			if more := len(denied) - i; r.network.Omitted > 0 {
				console.Say("%d more were denied (--report lists them), and others that --report only counts", more)
			} else {
				console.Say("%d more were denied: --report lists them all", more)
			}
			break
		}
		console.Say("%s", deniedText(d))
	}
}

// noNetwork is printed if there are no rules: then it is unknown what the command tried to reach. But some programs use
// the network that a preset allows.
func noNetwork(command []string) string {
	flags := "--allow-net RULE"
	if preset := usualPreset(command); preset != nsrunlib.DefaultPreset {
		flags = "--preset " + preset.String() + ", " + flags
	}
	return "network: there is none, and the command tried to use it (try: " + flags + ", or --learn-net to find the rules)"
}

// usualPresets are those for programs that download packages.
var usualPresets = map[string]nsrunlib.Preset{
	"npm": nsrunlib.NPMPreset, "npx": nsrunlib.NPMPreset, "pnpm": nsrunlib.NPMPreset, "yarn": nsrunlib.NPMPreset,
	"pip": nsrunlib.PyPIPreset, "pip3": nsrunlib.PyPIPreset, "pipx": nsrunlib.PyPIPreset, "poetry": nsrunlib.PyPIPreset,
	"uv": nsrunlib.PyPIPreset, "uvx": nsrunlib.PyPIPreset, "go": nsrunlib.GoPreset, "cargo": nsrunlib.CargoPreset,
	"apt": nsrunlib.DebianPreset, "apt-get": nsrunlib.DebianPreset,
}

// usualPreset is the preset for the first such program that a command line has, or DefaultPreset.
func usualPreset(command []string) nsrunlib.Preset {
	for _, line := range command {
		for word := range strings.FieldsFuncSeq(line, func(c rune) bool { return strings.ContainsRune(" \t\n;&|()'\"", c) }) {
			if preset, ok := usualPresets[filepath.Base(word)]; ok {
				return preset
			}
		}
	}
	return nsrunlib.DefaultPreset
}

// soon is how long a command runs before nsrun checks for refusals. If it ends earlier, all are printed at its end.
const soon = 300 * time.Millisecond

// later is soon with --why: only at the end of the command is it known why it failed.
const later = 30 * time.Second

// lookForRefusals prints the first refusal while the command runs, because the command may wait for long before it
// gives up. It returns a function that stops this.
func (r *runner) lookForRefusals(x *nsrunlib.Execution) (stop func()) {
	if r.o.quiet || r.o.learnNet || r.o.net == "host" {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		after := soon
		if r.o.why {
			after = later
		}
		wait := time.NewTimer(after)
		defer wait.Stop()
		for ; ; after = min(after*3/2, 10*time.Second) {
			select {
			case <-end:
				return
			case <-wait.C:
			}
			if r.tellRefusal(x.Network()) {
				return
			}
			wait.Reset(after)
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// tellRefusal prints the first refusal, if there is one and the command is not drawing on the terminal.
func (r *runner) tellRefusal(n nsrunlib.Network) bool {
	denied := n.Denied()
	if len(denied) == 0 && n.Refused == 0 || console.DrawnOn(os.Stderr) {
		return false
	}
	r.refusal.told = true
	if n.Refused > 0 {
		console.Say("%s", noNetwork(r.o.command))
		return true
	}
	d := denied[0]
	r.refusal.target, d.Count = nsrunlib.TargetText(d), 1
	console.Say("%s", deniedText(d))
	return true
}

// deniedText is a line about something that was denied.
func deniedText(d netpolicy.Decision) string {
	text := "network: " + nsrunlib.TargetText(d) + " was denied"
	if d.Count > 1 {
		text += fmt.Sprintf(" (%d times)", d.Count)
	}
	return text + tryFlag(d.AllowWith)
}

func tryFlag(flag string) string {
	if flag == "" {
		return ""
	}
	return " (try: " + flag + ")"
}
