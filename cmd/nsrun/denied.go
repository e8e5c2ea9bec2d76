//go:build linux

package main

import (
	"cmp"
	"os"
	"slices"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
)

// withoutLocked takes the flags from refusals that locked blocked_paths or limits cause: these win over all flags.
func (o *runOptions) withoutLocked(list []nsrunlib.Refusal) {
	for i := range list {
		if d := &list[i]; o.lockedPaths && d.Rule == "blocked" {
			d.Flag, d.Why = "", d.Why+", and blocked_paths is locked"
		} else if d.Rule == "limit" && o.locked != nil && o.locked("limits."+d.Target) {
			d.Flag, d.Why = "", d.Why+", and "+d.Target+" is locked"
		}
	}
}

// tellDenied prints the refusals of a command that failed, except those of the network: the first of each kind. With
// --why, it prints only those that made the command fail, as far as that is known, because many programs can do without
// what they were refused. A refusal that a flag would allow comes before one that no flag would.
func (r *runner) tellDenied(res nsrunlib.Result) {
	if r.o.quiet || res.ExitCode == 0 {
		return
	}
	var told []nsrunlib.RefusalKind
	list := res.FileRefusals()
	slices.SortStableFunc(list, func(a, b nsrunlib.Refusal) int { return cmp.Compare(min(1, len(b.Flag)), min(1, len(a.Flag))) })
	for _, d := range list {
		if slices.Contains(told, d.Kind) || r.o.why && !d.Failed {
			continue
		}
		told = append(told, d.Kind)
		console.Say("denied: %s", d)
	}
	if len(told) == 0 && !r.o.why && res.Signal == nil && res.Unsandboxed == "" && console.IsTerminal(os.Stderr) {
		console.Say("exit status %d (try: nsrun run --why, if the sandbox may be the reason)", res.ExitCode)
	}
}
