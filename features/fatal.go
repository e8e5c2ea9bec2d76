//go:build linux

package features

import (
	"errors"
	"math"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
)

// A seccomp filter can end a process at a system call instead of refusing the call (reexec.Probed). So under a filter,
// a process that may end makes the calls of the probes first: the clone of package prerun, if there is one.

// systemCall is a system call that a probe makes in this process.
type systemCall struct {
	name   string
	number uint32
}

// fatalError says that a seccomp filter ends processes at a call.
type fatalError struct{ call string }

func (e fatalError) Error() string {
	return "a seccomp filter ends processes that call " + e.call + "(2), instead of refusing it"
}

func (fatalError) sentence() {}

func (e fatalError) Is(target error) bool { return target == reexec.ErrFiltered }

// endedAt returns an error if a filter ends processes at one of these calls. Nil: it does not, or nobody can tell.
func endedAt(calls []systemCall) error {
	if len(calls) == 0 || !Filtered() {
		return nil
	}
	fatal := fatalCalls()
	for _, c := range calls {
		if fatal[c.number] {
			return fatalError{c.name}
		}
	}
	return nil
}

// Filtered reports whether this process runs under a seccomp filter.
func Filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return mode == unix.SECCOMP_MODE_FILTER || refusal(err) // it refuses this call, too
}

// fatalCalls returns the calls of the table at which a filter ends processes.
var fatalCalls func() map[uint32]bool

func init() { fatalCalls = sync.OnceValue(findFatalCalls) } // probes of the table use it

// findFatalCalls lets one process make all calls; only if that was ended, each call is made by a process of its own.
func findFatalCalls() map[uint32]bool {
	var all []systemCall
	for i := range table {
		all = append(all, table[i].calls...)
	}
	if reexec.Attempted() || !errors.Is(attempt(all), reexec.ErrFiltered) {
		return nil
	}
	fatal := map[uint32]bool{}
	for i, c := range all {
		if !fatal[c.number] && errors.Is(attempt(all[i:i+1]), reexec.ErrFiltered) {
			fatal[c.number] = true
		}
	}
	return fatal
}

// attempt makes calls in a process of its own. Each argument is -1, which is no descriptor, no flags and no address.
func attempt(calls []systemCall) error {
	b := prog.New(prog.Native())
	b.SetNFds(1)
	none := prog.Int(uintptr(math.MaxUint64))
	for _, c := range calls {
		b.Raw(c.number, none, none, none, none, none, none).TolerateAny()
	}
	b.Call(prog.SysExitGroup, prog.Int(0))
	return reexec.Perform(b.Program(), nil)
}

// FilterRemedy says what to do about a filter that ends processes at a system call.
func FilterRemedy() string { return filterRemedy(nil) }

// UnitRemedy says how the unit of systemd is changed in which this process runs. Empty: it runs in none.
func UnitRemedy() string {
	unit := unit()
	if unit == "" {
		return ""
	}
	return "systemctl edit " + unit + ", with the lines [Service], SystemCallFilter=, RestrictAddressFamilies= and RestrictNamespaces=no"
}

// refusedRemedy is filterRemedy where a filter may have refused a call with err. Empty: it has not.
func refusedRemedy(err error) string {
	if !refusal(err) || !Filtered() {
		return ""
	}
	return filterRemedy(err)
}

// filterRemedy says how a filter is told to allow a call: that of a unit of systemd, or that of a container.
func filterRemedy(error) string {
	if remedy := UnitRemedy(); remedy != "" {
		return remedy
	}
	return NamespacesRemedy + ", or a unit of systemd without SystemCallFilter="
}

// mountRemedy is about the filter of a unit of systemd, or about the limit on mount namespaces.
func mountRemedy(err error) string {
	if errors.Is(err, unix.ENOSPC) {
		return moreMounts
	}
	if unit() != "" && Filtered() {
		return filterRemedy(err)
	}
	return "start the container with fewer restrictions: " + NamespacesRemedy
}

// unit returns the service of systemd in whose cgroup this process is, or "".
func unit() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return serviceOf(string(b))
}

const unitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@-"

// serviceOf returns the service in the text of /proc/pid/cgroup. Empty: there is none, or shells would change its name.
func serviceOf(text string) string {
	for line := range strings.Lines(text) {
		if _, dir, ok := strings.Cut(strings.TrimSpace(line), "::"); ok && strings.HasSuffix(dir, ".service") {
			if name := path.Base(dir); strings.IndexFunc(name, func(c rune) bool { return !strings.ContainsRune(unitLetters, c) }) < 0 {
				return name
			}
		}
	}
	return ""
}
