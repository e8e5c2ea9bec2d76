//go:build linux

package nsrun

import (
	"os"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// keepMessages keeps the end of what the command writes to standard error, if that is the caller's file, which nsrun
// does not read. It ignores what the command redirects. A command that may make user namespaces keeps no messages: a
// sandbox that it makes may need the only listener that the kernel allows. Nor does one on a kernel on which its signal
// handlers would interrupt each message, nor one with an output limit, because nsrun reads that one's output.
func (x *Execution) keepMessages(cmd *nsexec.Cmd) {
	x.endMessages()
	file, isFile := x.request.Stderr.(*os.File)
	if !isFile || !x.request.Passthrough || x.runner.config.Why || x.explain || x.box.UserNamespaces || !features.Has(features.KillableCalls) {
		return
	}
	if x.runner.config.limits(&x.request).Output > 0 { // see connect
		return
	}
	x.messages = attempts.NewMessages(file)
	if x.landlock {
		x.messages.Join(sandbox.Of(cmd))
		return
	}
	x.messages.Attach(sandbox.Of(cmd), cmd.Seccomp[0])
	cmd.Seccomp = []nsexec.Filter{} // Attach has installed it
}

// endMessages stores the messages of a command that has ended.
func (x *Execution) endMessages() {
	if x.messages != nil {
		x.said = x.messages.Close()
		x.messages = nil
	}
}
