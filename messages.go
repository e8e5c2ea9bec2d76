//go:build linux

package nsrun

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// keepMessages keeps the end of what the command writes to standard error, if that is the caller's file, which nsrun
// does not read. It keeps that of standard output, too, if the command runs tests or a program that prints its errors
// there: only then is it a message, and short enough that each write may take longer. Of what the command redirects it
// keeps only what shells write to standard error in place of standard output. A command that may make user namespaces
// keeps no messages: a sandbox that it makes may need the only listener that the kernel allows. Nor does one on a
// kernel on which its signal handlers would interrupt each message, nor one with an output limit, because nsrun reads
// that one's output.
func (x *Execution) keepMessages(cmd *nsexec.Cmd) {
	x.endMessages()
	file, isFile := x.request.Stderr.(*os.File)
	if !isFile || !x.request.Passthrough || x.runner.config.Why || x.explain || x.box.UserNamespaces || !features.Has(features.KillableCalls) {
		return
	}
	if x.runner.config.limits(&x.request).Output > 0 { // see connect
		return
	}
	out, isFile := x.request.Stdout.(*os.File)
	if !isFile || !runsTests(x.args) && !tellsErrors(x.args) {
		out = nil
	}
	x.messages, x.listened = attempts.NewMessages(file, out, x.redirectsMessages()), true
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
		x.said, x.told = x.messages.Close()
		x.messages = nil
	}
}

// testRunners are programs that report on standard output why a test failed, and programs that run such without being
// told to in so many words. Not make: it usually compiles, and looking at a build with many short steps would cost too
// much.
var testRunners = []string{
	"pytest", "py.test", "tox", "nox", "ctest", "mocha", "jest", "vitest", "ava", "rspec", "phpunit", "prove", "bats", "gotestsum", "nextest",
	"rake", "mvn", "mvnw", "gradle", "gradlew",
}

// talkers are programs that print their errors on standard output, and little else.
var talkers = []string{"zip", "redis-server", "valkey-server", "tsc", "dotnet", "msbuild", "tex", "latex", "pdftex", "pdflatex", "xelatex", "lualatex", "gs", "Rscript", "ant"}

// tellsErrors reports whether a command line names such a program.
func tellsErrors(args []string) bool {
	for word := range shellWords(args) {
		if slices.Contains(talkers, filepath.Base(word)) {
			return true
		}
	}
	return false
}

// runsTests reports whether a command line runs tests: it names such a program, or a verb, goal or script whose name
// says so, as in go test, make check, npm run test:unit and ./run_tests.sh.
func runsTests(args []string) bool {
	for word := range shellWords(args) {
		word = filepath.Base(word)
		if slices.Contains(testRunners, word) {
			return true
		}
		if end := filepath.Ext(word); slices.Contains(scriptEnds, end) {
			word = strings.TrimSuffix(word, end)
		} else if end != "" {
			continue // a text, or data
		}
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune("-_:.", r) }) {
			if slices.Contains(testWords, part) {
				return true
			}
		}
	}
	return false
}

var (
	testWords  = []string{"test", "tests", "check", "unittest"}
	scriptEnds = []string{".sh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php"}
)

// failureWords are in reports of failed tests: of pytest and cargo, Go, TAP, mocha and rspec.
var failureWords = [...][]byte{[]byte("FAIL"), []byte("not ok "), []byte(" failed"), []byte(" failing"), []byte(" failure")}

// reportsFailure reports whether a text is the report of a test that failed. Anything else that is printed on standard
// output can be about other computers or other times.
func reportsFailure(text []byte) bool {
	return slices.ContainsFunc(failureWords[:], func(word []byte) bool { return bytes.Contains(text, word) })
}
