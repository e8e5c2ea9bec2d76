//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/internal/testenv"
)

// A window shows what a terminal would that gets these bytes. It knows the sequences that package
// screen uses, and nothing else: all others are wrong.
type window struct {
	rows      [][]string // cells; those that a wide character covers are empty
	x, y      int
	alternate bool
	hidden    bool // the cursor
	wrong     string
}

func newWindow(width, height int) *window {
	w := &window{rows: make([][]string, height)}
	for i := range w.rows {
		w.rows[i] = make([]string, width)
	}
	return w
}

func (w *window) write(s string) {
	for s != "" && w.wrong == "" {
		if s[0] == 0x1b {
			n := w.sequence(s)
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case !w.alternate: // before and after, lines are printed
		case r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0:
			w.wrong = fmt.Sprintf("%q on the screen", s[:n])
		default:
			width := screen.Width(s[:n])
			if strings.HasPrefix(screen.Fit("a"+s[:n], 0, 0, 9, -1).Plain(), "a"+s[:n]) && screen.Width("a"+s[:n]) == 1 {
				width = 0
			}
			w.put(s[:n], width)
		}
		s = s[n:]
	}
}

func (w *window) put(text string, width int) {
	if w.y >= len(w.rows) {
		return
	}
	row := w.rows[w.y]
	if width == 0 {
		if w.x > 0 && w.x <= len(row) {
			row[w.x-1] += text
		}
		return
	}
	if w.x+width > len(row) {
		w.wrong = fmt.Sprintf("%q beyond the right edge", text)
		return
	}
	row[w.x] = text
	for i := 1; i < width; i++ {
		row[w.x+i] = ""
	}
	w.x += width
}

// sequence does what the one at the beginning of s says, and returns its length.
func (w *window) sequence(s string) int {
	end := 2
	for end < len(s) && (s[end] < 0x40 || s[end] > 0x7e) {
		end++
	}
	if len(s) < 3 || s[1] != '[' || end == len(s) {
		w.wrong = fmt.Sprintf("%q", s[:min(len(s), 20)])
		return len(s)
	}
	clear := func(row []string, from int) {
		for i := from; i < len(row); i++ {
			row[i] = " "
		}
	}
	param := s[2:end]
	switch s[end] {
	case 'h', 'l':
		on := s[end] == 'h'
		switch param {
		case "?1049":
			w.alternate = on
		case "?25":
			w.hidden = !on
		case "?7", "?2004":
		default:
			w.wrong = s[:end+1]
		}
	case 'm':
	case 'H':
		a, b, _ := strings.Cut(param, ";")
		y, _ := strconv.Atoi(a)
		x, _ := strconv.Atoi(b)
		w.y, w.x = y-1, x-1
	case 'G':
		x, _ := strconv.Atoi(param)
		w.x = x - 1
	case 'J':
		for _, row := range w.rows {
			clear(row, 0)
		}
	case 'K':
		if w.y < len(w.rows) {
			from := w.x
			if param == "2" {
				from = 0
			}
			clear(w.rows[w.y], from)
		}
	default:
		w.wrong = s[:end+1]
	}
	return end + 1
}

func (w *window) lines() []string {
	lines := make([]string, len(w.rows))
	for i, row := range w.rows {
		lines[i] = strings.TrimRight(strings.Join(row, ""), " ")
	}
	return lines
}

// reviewed is nsrun review at a terminal.
type reviewed struct {
	*session
	t             *testing.T
	from          int // what was written before belongs to a window of another size
	width, height int
	state         string
}

// changed makes a project, and a session in which the script changed it.
func changed(t *testing.T, script string, tree ...string) (bin, dir string, env []string) {
	t.Helper()
	bin, dir = installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	testenv.Tree(t, filepath.Join(dir, "p"), tree...)
	t.Cleanup(func() { // what an overlay leaves in its work directory is not for everybody
		_ = filepath.WalkDir(filepath.Join(dir, "home"), func(name string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(name, 0o700)
			}
			return nil
		})
	})
	env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TERM=xterm", "LC_ALL=C", "GORACE=atexit_sleep_ms=0"}
	c := exec.Command(filepath.Join(bin, "nsrun"), "run", "-q", "--keep", "--project", ".", "--", "sh", "-euc", script)
	c.Dir, c.Env = filepath.Join(dir, "p"), env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin, dir, env
}

// reviewing begins a review of what the script changed.
func reviewing(t *testing.T, script string, tree ...string) *reviewed {
	t.Helper()
	testenv.Once(t)
	testenv.Leaks(t, reap)
	bin, dir, env := changed(t, script, tree...)
	return reviewIn(t, bin, dir, env)
}

func reviewIn(t *testing.T, bin, dir string, env []string, args ...string) *reviewed {
	t.Helper()
	r := &reviewed{t: t, session: &session{Terminal: testenv.NewTerminal(t), project: filepath.Join(dir, "p")}, width: 80, height: 24}
	r.Resize(24, 80)
	r.cmd = exec.Command(filepath.Join(bin, "nsrun"), append([]string{"review"}, args...)...)
	r.cmd.Dir, r.cmd.Env = r.project, env
	r.Attach(r.cmd)
	r.state = r.mode()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	return r
}

// mode is how the terminal is set.
func (r *reviewed) mode() string {
	r.t.Helper()
	mode, err := unix.IoctlGetTermios(int(r.Slave().Fd()), unix.TCGETS)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(*mode)
}

func (r *reviewed) window() *window {
	w := newWindow(r.width, r.height)
	out := r.Screen()
	if r.from > 0 { // what was on its way when the size changed is of no use
		w.alternate = true
		out = out[r.from:]
		out = out[max(strings.LastIndex(out, "\x1b[2J"), 0):]
	}
	w.write(out)
	return w
}

// shows waits until all of the texts are seen.
func (r *reviewed) shows(texts ...string) {
	r.t.Helper()
	var all string
	if !testenv.Poll(patience, func() bool {
		all = strings.Join(r.window().lines(), "\n") + "\n"
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	}) {
		r.t.Fatalf("%q is not seen, but\n%s\n%s", texts, all, r.window().wrong)
	}
}

// hides waits until the text is not seen.
func (r *reviewed) hides(text string) {
	r.t.Helper()
	var all string
	if !testenv.Poll(patience, func() bool {
		all = strings.Join(r.window().lines(), "\n")
		return !strings.Contains(all, text)
	}) {
		r.t.Fatalf("%q is still seen:\n%s", text, all)
	}
}

func (r *reviewed) resize(width, height int) {
	r.from = len(r.Screen())
	r.width, r.height = width, height
	r.Resize(uint16(height), uint16(width))
}

// ended waits for the end, and looks whether the terminal is what it was.
func (r *reviewed) ended(status int) {
	r.t.Helper()
	_ = r.cmd.Wait()
	if got := r.mode(); got != r.state {
		r.t.Errorf("the terminal is left as %s, was %s", got, r.state)
	}
	r.ends(r.t, status)
	if w := r.window(); w.alternate || w.hidden || w.wrong != "" {
		r.t.Errorf("the terminal is left with another screen: %v, a hidden cursor: %v; wrong: %s", w.alternate, w.hidden, w.wrong)
	}
}

// reviewScript changes what reviewTree makes.
const reviewScript = `
	echo new >mod
	rm -r gone
	mkdir -p dir/sub
	echo one >dir/one
	echo two >dir/sub/two
	echo last >zlast
`

var reviewTree = []string{"mod: old\n", "gone/a: a\n", "gone/b: b\n", "same: same\n"}

func TestReviewQuit(t *testing.T) {
	for _, c := range []struct {
		keys   string
		status int
	}{{"q", 0}, {" dq", 0}, {"\x03", 130}, {"ac\x03", 130}, {"=ac\x1b", -1}} {
		t.Run(strconv.Quote(c.keys), func(t *testing.T) {
			r := reviewing(t, reviewScript, reviewTree...)
			r.shows("A dir/", "D gone/", "M mod", "A zlast", "commit 0, drop 0, keep 7")
			r.Type(c.keys)
			if c.status < 0 { // back in the list
				r.shows("commit 7", "[+] A dir/sub/two")
				r.Type("q")
				c.status = 0
			}
			r.ended(c.status)
			if r.has("zlast") || !r.has("gone/a") {
				t.Error("something was done")
			}
			out, err := r.nsrun("show")
			if err != nil || !strings.Contains(out, "A zlast") {
				t.Errorf("the session has changed: %v\n%s", err, out)
			}
		})
	}
}

// nsrun runs it without a terminal.
func (r *reviewed) nsrun(args ...string) (string, error) {
	c := exec.Command(r.cmd.Path, args...)
	c.Dir, c.Env = r.cmd.Dir, r.cmd.Env
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestReviewCommit(t *testing.T) {
	r := reviewing(t, reviewScript, reviewTree...)
	r.shows("> A dir/"[2:], "zlast")
	r.Type("= ") // dir/ and all in it
	r.shows("[+] A dir/", "[+] A dir/sub/two", "commit 4, drop 0, keep 3")
	r.Type("G ")
	r.shows("[+] A zlast", "+last")
	r.Type("c")
	r.shows("commit 5, drop 0, keep 2?", "A dir/ (and 3 below)", "y yes")
	r.Type("x")
	r.Type("y")
	r.ended(0)
	r.Await("nsrun: committed 5 changes of ")
	for name, want := range map[string]bool{"dir/sub/two": true, "zlast": true, "gone/a": true} {
		if r.has(name) != want {
			t.Errorf("%s is in the project: %v", name, !want)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(r.project, "mod")); string(b) != "old\n" {
		t.Errorf("mod was committed: %q", b)
	}
	out, err := r.nsrun("show")
	if err != nil || !strings.Contains(out, "M mod") || strings.Contains(out, "A dir") {
		t.Errorf("left are %v\n%s", err, out)
	}
}

// content returns the content of a file in the project, or says that there is no such file.
func (r *reviewed) content(name string) string {
	b, err := os.ReadFile(filepath.Join(r.project, name))
	if err != nil {
		return "nothing"
	}
	return string(b)
}

func TestReviewDrop(t *testing.T) {
	r := reviewing(t, reviewScript, reviewTree...)
	r.shows("A zlast")
	r.Type("=jd/gone\r d/mod\rgjd\x1b")
	r.shows("[~] A dir/", "[-] A dir/one", "[-] D gone/", "[-] M mod", "[ ] A zlast")
	r.Type("/zl\r ")
	r.shows("[+] A zlast")
	r.Type("c")
	r.shows("commit 1, drop 3, keep 3?", "dropped from the session:", "D gone/", "M mod", "into the project:", "A zlast")
	r.Type("y")
	r.ended(0)
	r.Await("committed 1 change, dropped 3 changes of ")
	for name, want := range map[string]string{"zlast": "last\n", "gone/a": "a\n", "mod": "old\n", "dir/one": "nothing"} {
		if got := r.content(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	out, err := r.nsrun("show")
	if err != nil || strings.Contains(out, "M mod") || strings.Contains(out, "D gone") || !strings.Contains(out, "A dir") {
		t.Errorf("left are %v\n%s", err, out)
	}
	if out, err := r.nsrun("log", "last"); err != nil || !strings.Contains(out, "M mod (dropped)") || !strings.Contains(out, "A zlast\n") {
		t.Errorf("the log: %v\n%s", err, out)
	}
	// And the rest: then there is nothing left.
	r2 := reviewIn(t, filepath.Dir(r.cmd.Path), filepath.Dir(r.project), r.cmd.Env)
	r2.shows("A dir/ (and 2 below)")
	r2.Type("dcy")
	r2.ended(0)
	r2.Await("nsrun: dropped 3 changes of ")
}

func TestReviewConflict(t *testing.T) {
	for _, c := range []struct{ keys, want, says string }{
		{"t", "1\n2\n3 theirs\n", "committed 7 changes (conflicts: the session's) of "},
		{"o", "1 ours\n2\n3\n", "committed 7 changes (conflicts: the project's) of "},
		{"m", "1 ours\n2\n3 theirs\n", "committed 7 changes (conflicts: merged) of "},
		{"qq", "1 ours\n2\n3\n", ""},
	} {
		t.Run(c.keys, func(t *testing.T) {
			r := reviewing(t, reviewScript+`printf '1\n2\n3 theirs\n' >mod`, "mod: 1\n2\n3\n", "gone/a: a\n")
			r.shows("A zlast", "M mod")
			testenv.Tree(t, r.project, "mod: 1 ours\n2\n3\n")
			r.Type("acy")
			r.shows("nothing was done: 1 conflict", "mod ", "ours, the project's", "theirs, the session's", "13 bytes", "do not overlap", "t theirs")
			if r.has("zlast") || r.content("mod") != "1 ours\n2\n3\n" {
				t.Error("something was done")
			}
			r.Type(c.keys)
			r.ended(0)
			r.Await(c.says)
			if got := r.content("mod"); got != c.want || r.has("zlast") != (c.says != "") {
				t.Errorf("mod is %q, zlast there: %v", got, r.has("zlast"))
			}
		})
	}
}

func TestReviewSpecial(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir, env := changed(t, reviewScript+"echo s >suid", reviewTree...)
	// The sandbox does not let anybody make it so.
	files, err := filepath.Glob(filepath.Join(dir, "home/.local/state/nsrun/sessions/*/upper/*/suid"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Chmod(files[0], 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	r := reviewIn(t, bin, dir, env)
	r.shows("A suid")
	r.Type("acy")
	r.shows("nothing was done", "suid is setuid", "--allow-special")
	r.Type("u")
	r.shows("[ ] A suid", "1 change unmarked", "[+] M mod")
	r.Type("cy")
	r.ended(0)
	if r.has("suid") || r.content("mod") != "new\n" {
		t.Errorf("suid is there: %v, mod is %q", r.has("suid"), r.content("mod"))
	}
	r = reviewIn(t, bin, dir, env, "--allow-special")
	r.shows("A suid")
	r.Type("acy")
	r.ended(0)
	if !r.has("suid") {
		t.Error("suid is not there")
	}
}

// TestReviewRefused: without a terminal, with one that cannot do it, for a session that is
// in use or at its end.
func TestReviewRefused(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir, env := changed(t, reviewScript, reviewTree...)
	run := func(alone bool, args ...string) string {
		t.Helper()
		c := exec.Command(filepath.Join(bin, "nsrun"), append([]string{"review"}, args...)...)
		c.Dir, c.Env = filepath.Join(dir, "p"), env
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: alone}
		out, err := c.CombinedOutput()
		if err == nil || c.ProcessState.ExitCode() != console.ExitFailed {
			t.Errorf("%q: %v", args, err)
		}
		return string(out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "nsrun: review: there is no terminal (try: nsrun commit 2"},
		{[]string{"a", "b"}, "nsrun: review: takes one session (try: nsrun help review)"},
		{[]string{"--nonsense"}, "nsrun: review: unknown flag --nonsense (try: nsrun help review)"},
		{[]string{"none"}, "no such session"},
	} {
		if got := run(true, c.args...); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
	for _, term := range []string{"TERM=dumb", "TERM="} {
		r := reviewIn(t, bin, dir, append(env, term))
		r.ends(t, console.ExitFailed)
		r.Await("nsrun: review: TERM says that the terminal can only print lines (try: nsrun commit 2")
		if strings.Contains(r.Screen(), "\x1b") {
			t.Errorf("%s: the terminal got %q", term, r.Screen())
		}
	}
	r := reviewIn(t, bin, dir, env)
	r.shows("A zlast")
	if got := run(true); !strings.Contains(got, "the session is in use") {
		t.Errorf("in use: %q", got)
	}
	r.Type("dG acy") // all: what is dropped stays so
	r.ended(0)
	if got := run(true); !strings.Contains(got, " were committed already (try: nsrun log -p --session ") {
		t.Errorf("at its end: %q", got)
	}
}

// TestReviewLarge: a list of 2,000, and a diff of 100,000 lines.
func TestReviewLarge(t *testing.T) {
	r := reviewing(t, `
		mkdir many
		for i in $(seq 2000); do echo $i; done | (cd many && xargs touch)
		seq 100000 >seq
		truncate -s 70000000 zero
	`)
	r.shows("A many/ (and 2000 below)", "keep 2003", "q quit")
	r.hides("A many/1")
	r.Type("G")
	r.shows("A zero", "too large")
	r.Type("k")
	r.shows("A seq", "+1\n", "+5\n")
	r.Type("\tG")
	r.shows("+100000\n")
	r.Type(strings.Repeat("k", 500))
	r.shows("+99500\n")
	r.Type("\tg ")
	r.shows("commit 2001, drop 0, keep 2")
	r.Type("q")
	r.ended(0)
}

func TestReviewFilter(t *testing.T) {
	r := reviewing(t, reviewScript, reviewTree...)
	r.shows("A zlast")
	r.Type("/TW\x7f\x7ftw")
	r.shows("/tw", "A dir/sub/two", "D gone/")
	r.hides("A zlast")
	r.Type("\ra")
	r.shows("[+] A dir/sub/two", "[ ] D gone/", "commit 3, drop 0, keep 4")
	r.Type("\x1b")
	r.shows("[~] A dir/", "[ ] A zlast")
	r.Type("q")
	r.ended(0)
}

func TestReviewPaste(t *testing.T) {
	r := reviewing(t, reviewScript, reviewTree...)
	r.shows("A zlast")
	r.Type("\x1b[200~acy\r\x1b[201~")
	r.Type("/\x1b[200~las\x1b[201~t")
	r.shows("/last")
	r.hides("A dir")
	r.Type("\rq")
	r.ended(0)
	if r.has("zlast") {
		t.Error("pasted text committed something")
	}
}

func TestReviewResize(t *testing.T) {
	r := reviewing(t, reviewScript, reviewTree...)
	r.shows("A zlast", "q quit")
	r.Type("=")
	for _, size := range [][2]int{{120, 30}, {200, 60}, {40, 10}, {20, 5}, {7, 3}, {3, 2}, {1, 1}, {80, 24}} {
		r.resize(size[0], size[1])
		want := "[ ] A dir/"
		switch {
		case size[0] < 10:
			want = "[ ] A dir/"[:min(size[0], 3)]
		case size[0] >= 20 && size[1] > 5:
			r.shows("A dir/sub/")
		}
		r.shows(want)
		r.Type("jk?jq\tG\t ")
		r.Type(" ")
	}
	var w *window // the end of what was drawn last may be on its way
	if !testenv.Poll(patience, func() bool { w = r.window(); return w.wrong == "" }) {
		t.Error(w.wrong)
	}
	r.Type("q")
	r.from = 0
	r.width, r.height = 300, 100
	r.ended(0)
}

// TestReviewSignal: the terminal is given back whatever ends it.
func TestReviewSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			r := reviewing(t, reviewScript, reviewTree...)
			r.shows("A zlast")
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			r.ended(128 + int(sig))
		})
	}
}

// TestReviewStop: Ctrl-Z gives the terminal to the shell, fg takes it again.
func TestReviewStop(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir, env := changed(t, reviewScript, reviewTree...)
	term := testenv.NewTerminal(t)
	term.Resize(24, 80)
	sh := exec.Command("bash", "--norc", "--noprofile", "-i")
	sh.Dir = filepath.Join(dir, "p")
	sh.Env = append(env, "PATH="+bin+":"+os.Getenv("PATH"), "PS1=prompt> ", "HISTFILE=", "TERM=xterm")
	term.Attach(sh)
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sh.Process.Kill()
		_ = sh.Wait()
	})
	r := &reviewed{t: t, session: &session{Terminal: term, cmd: sh, project: sh.Dir}, width: 80, height: 24}
	await := func(from int, text string) {
		t.Helper()
		testenv.Eventually(t, text, func() bool { return strings.Contains(term.Screen()[from:], text) })
	}
	term.Await("prompt> ")
	// Within another program, which is stopped with it.
	term.Type("sh -c 'nsrun review; echo end $?'\n")
	r.shows("A zlast", "q quit")
	group := term.Foreground()
	for range 30 {
		at := len(term.Screen())
		term.Type("G \x1a")
		await(at, "Stopped")
		await(at, "prompt> ")
		term.Type("\n") // the shell gets this, although the review was reading a moment before
		testenv.Eventually(t, "another prompt", func() bool { return strings.Count(term.Screen()[at:], "prompt> ") > 1 })
		// It could change the shell's terminal, and discard what is typed there.
		for _, p := range testenv.Processes() {
			if p.Group == group && p.Name == "nsrun" && ignores(t, p.Pid, unix.SIGTTOU) {
				t.Error("SIGTTOU is ignored")
			}
		}
		if w := r.window(); w.alternate || w.hidden {
			t.Errorf("stopped with another screen: %v, a hidden cursor: %v; %s\n%q", w.alternate, w.hidden, w.wrong, term.Screen())
		}
		at = len(term.Screen())
		term.Type("echo sh''ell\n")
		await(at, "shell")
		at = len(term.Screen())
		term.Type("fg\n")
		await(at, "q quit")
		r.shows("A zlast")
	}
	at := len(term.Screen())
	term.Type("q")
	await(at, "end 0")
	leave(t, term, sh)
}

// ignores reports whether the process ignores the signal.
func ignores(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, mask, _ := strings.Cut(string(b), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	set, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&(1<<(sig-1)) != 0
}

// TestReviewHostile: names and contents of files reach the terminal escaped only.
func TestReviewHostile(t *testing.T) {
	r := reviewing(t, `
		printf 'x' >"$(printf 'esc\033]0;title\007')"
		printf 'x' >"$(printf 'csi\302\2332J')"
		printf 'x' >"$(printf 'bad\377\376utf')"
		printf 'x' >"$(printf 'new\nline\rcr\ttab')"
		printf 'x' >"$(printf 'bidi\342\200\256gpj.exe')"
		printf 'x' >"$(printf 'wide\346\274\242\345\255\227')"
		printf 'x' >"$(printf 'zalgo\314\201\314\201\314\201\314\201\314\201\314\201')"
		printf 'x' >"star*[x]"
		ln -s "$(printf 'to\033[31m')" link
		{ printf '\033[2J\033]0;title\007\b\b\r\302\233x\377\n'; head -c 100000 /dev/zero | tr '\0' '\033'; echo; } >content
	`)
	r.shows("q quit")
	r.resize(120, 40)
	r.shows("star*[x]", `bad\xff\xfeutf`, "wide漢字", `new\nline\rcr\ttab`, `esc\x1b]0;title\a`, `csi\u009b2J`, `bidi\u202egpj.exe`)
	for range 10 {
		r.Type("j")
		r.Type("lllhJKJKG")
	}
	r.Type("g/content\r")
	r.shows(`\x1b[2J\x1b]0;title\a\b\b\r\u009bx\xff`)
	r.Type("\x1b")
	r.shows("star*[x]")
	r.Type("ac")
	r.shows("commit 10, ", `bad\xff\xfeutf`)
	r.Type("y")
	r.ended(0)
	if !r.has("star*[x]") || !r.has("esc\x1b]0;title\x07") || !r.has("bad\xff\xfeutf") {
		t.Error("the commit is not complete")
	}
	if w := r.window(); w.wrong != "" {
		t.Error(w.wrong)
	}
	if out := r.Screen(); strings.Contains(out, "title\a") || strings.Contains(out, "\x1b[31mx") {
		t.Errorf("the terminal got %q", out)
	}
}

// TestReviewNoColor: without colours there are still attributes.
func TestReviewNoColor(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir, env := changed(t, reviewScript, reviewTree...)
	for _, colour := range []bool{true, false} {
		if !colour {
			env = append(env, "NO_COLOR=1")
		}
		r := reviewIn(t, bin, dir, env)
		r.shows("A zlast", "q quit")
		r.Type("q")
		r.ended(0)
		if got := strings.Contains(r.Screen(), "\x1b[32m"); got != colour {
			t.Errorf("colours: %v", got)
		}
	}
}
