//go:build linux

package testenv

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	asUserEnv = "NSRUN_TEST_AS_USER"
	asRootEnv = "NSRUN_TEST_AS_ROOT" // set by Main for the run in an own mount namespace
	onceEnv   = "NSRUN_TEST_ONCE"    // set by the Makefile where root's run is enough
	hereEnv   = "NSRUN_TEST_HERE"
	nobody    = 65534
)

// Main runs the tests of a package and exits. After them the cleanup functions are called, and nothing may be left: no
// descriptor, no child process, no mount, no temporary file.
func Main(m *testing.M, cleanup ...func()) { os.Exit(run(m, cleanup)) }

// MainOnce is Main for a package whose code does the same whoever runs it: root has its tests run
// once, as root. With NSRUN_LONG it is Main.
func MainOnce(m *testing.M, cleanup ...func()) {
	if !Long() {
		_ = os.Setenv(onceEnv, "1")
	}
	Main(m, cleanup...)
}

func run(m *testing.M, cleanup []func()) int {
	if special() {
		return m.Run()
	}
	defaultSignals()
	ownDescriptors()
	unix.Umask(0o022) // the ordinary user reads what root makes, and tests compare modes
	if os.Geteuid() != 0 || os.Getenv(asRootEnv) != "" {
		return checked(m, cleanup)
	}
	if !flag.Parsed() {
		flag.Parse()
	}
	begun := time.Now()
	tmp, err := os.MkdirTemp("", "nsrun-test-")
	if err != nil {
		return complain(err)
	}
	defer func() { _ = removeAll(tmp) }()
	var namespaces uintptr
	if noNamespaces() == nil {
		namespaces = unix.CLONE_NEWNS
	}
	code, err := inMemory(tmp, func() int {
		code := asRoot(tmp, namespaces)
		if os.Getenv(onceEnv) == "" {
			code = cmp.Or(code, asUser(tmp, namespaces, begun))
		}
		return code
	})
	if err != nil {
		return complain(err)
	}
	return code
}

// defaultSignals has signals that this process was started to ignore, as nohup does and a shell for what it runs in the
// background, reach what tests run: a shell cannot trap a signal that it was started to ignore.
func defaultSignals() {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// ownDescriptors keeps to this process what it was started with, besides 0, 1 and 2: tests say of some numbers that
// nothing is open there.
func ownDescriptors() {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// special reports whether this run lists tests, is a part of fuzzing, where several processes run at
// once, or can be no other process than this one.
func special() bool {
	if os.Getenv(hereEnv) != "" {
		return true
	}
	for _, a := range os.Args[1:] {
		a = strings.TrimLeft(a, "-")
		if strings.HasPrefix(a, "test.list") || strings.HasPrefix(a, "test.fuzz") {
			return true
		}
	}
	return false
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "testenv:", err)
	return 1
}

// asRoot runs the tests in namespaces of their own.
func asRoot(tmp string, namespaces uintptr) int {
	dir := filepath.Join(tmp, "root")
	// Some tests run programs as somebody else.
	if err := errors.Join(os.Chmod(tmp, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		return complain(err)
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	env := asRootEnv + "=1"
	if namespaces == 0 {
		env = asRootEnv + "=shared" // there is nothing that could be mounted
	}
	c.Env = append(os.Environ(), env, "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: namespaces, Pdeathsig: syscall.SIGKILL}
	return runAgain(c, os.Args[0])
}

// asUser runs a copy of this binary as somebody who owns nothing here, in what is left of the time since begun.
func asUser(tmp string, namespaces uintptr, begun time.Time) int {
	dir := filepath.Join(tmp, "user")
	work := filepath.Join(dir, "work")
	binary := filepath.Join(dir, filepath.Base(os.Args[0]))
	if err := errors.Join(os.Chmod(tmp, 0o755), os.MkdirAll(work, 0o755), copyFile(binary, "/proc/self/exe", 0o755), copyPackage(work)); err != nil {
		return complain(err)
	}
	for _, name := range []string{"home", "tmp"} {
		d := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(d, 0o700), os.Chown(d, nobody, nobody)); err != nil {
			return complain(err)
		}
	}
	c := exec.Command(binary, append(timeLeft(begun), userArgs()...)...)
	c.Dir = work
	c.Env = append(os.Environ(), asUserEnv+"=1", "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"USER=nobody", "LOGNAME=nobody", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "XDG_RUNTIME_DIR=")
	c.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig:  syscall.SIGKILL,
		// What others mount meanwhile is not a leak.
		Unshareflags: namespaces,
	}
	fmt.Println("once more, as an ordinary user:")
	return runAgain(c, binary)
}

// timeLeft is the argument that ends the second run, with all goroutines printed, before the go command
// kills the first process, which knows nothing of them.
func timeLeft(begun time.Time) []string {
	limit, ok := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if !ok || limit == 0 {
		return nil
	}
	return []string{"-test.timeout=" + max(limit-time.Since(begun), time.Second).String()}
}

// userArgs are the arguments without the limit of time, and without what writes files, which the first run did.
func userArgs() []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool {
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch name {
		case "test.timeout":
			return hasValue
		case "update", "test.coverprofile", "test.gocoverdir", "test.testlogfile", "test.cpuprofile", "test.memprofile",
			"test.blockprofile", "test.mutexprofile", "test.trace", "test.outputdir":
			return true
		}
		return false
	})
}

func runAgain(c *exec.Cmd, name string) int {
	c.Args[0] = name
	if os.Getenv("GORACE") == "" {
		c.Env = append(c.Env, "GORACE=atexit_sleep_ms=0") // else a second for each process
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		if ee.ExitCode() > 0 {
			return ee.ExitCode()
		}
	}
	if err != nil {
		return complain(err)
	}
	return 0
}

func copyFile(to, from string, perm fs.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, b, perm), os.Chmod(to, perm))
}

// copyPackage copies the package's files and its testdata: the checkout may be where others cannot read.
func copyPackage(to string) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			if err := copyFile(filepath.Join(to, e.Name()), e.Name(), 0o644); err != nil {
				return err
			}
		}
	}
	if _, err := os.Stat("testdata"); err == nil {
		if err := os.CopyFS(filepath.Join(to, "testdata"), os.DirFS("testdata")); err != nil {
			return err
		}
	}
	return nil
}

// checked runs the tests in this process and looks for what they left.
func checked(m *testing.M, cleanup []func()) int {
	own, err := ownPlace()
	if err != nil {
		return complain(err)
	}
	defer func() { _ = removeAll(own) }()
	before := look()
	code := m.Run()
	if left := leaked(before, cleanup); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: after all tests there is still\n\t%s\n", strings.Join(left, "\n\t"))
		code = max(code, 1)
	}
	if len(needRoot.names) > 0 {
		fmt.Printf("skipped, for they need root: %s\n", strings.Join(needRoot.names, " "))
	}
	return code
}

// ownPlace gives the tests a directory for temporary files and, as root, shared mounts as most hosts have them.
func ownPlace() (tmp string, err error) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if os.Getenv(asRootEnv) == "1" {
		// Once: a test that runs this binary again has the same namespace.
		if err := os.Setenv(asRootEnv, "shared"); err != nil {
			return "", err
		}
		for _, flags := range []uintptr{unix.MS_REC | unix.MS_PRIVATE, unix.MS_REC | unix.MS_SHARED} {
			if err := unix.Mount("", "/", "", flags, ""); err != nil {
				return "", err
			}
		}
	}
	if tmp, err = os.MkdirTemp("", "nsrun-test-"); err != nil {
		return "", err
	}
	// Resolved, because tests compare paths; open to others, because tests let sandboxes with other ids in.
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return "", err
	}
	spread(tmp)
	if ownState {
		for _, name := range [...]string{"XDG_STATE_HOME", "XDG_DATA_HOME"} {
			dir := filepath.Join(tmp, strings.ToLower(name))
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Setenv(name, dir)); err != nil {
				return "", err
			}
		}
	}
	return tmp, errors.Join(os.Chmod(tmp, 0o755), os.Setenv("TMPDIR", tmp))
}

// Root reports whether the tests run as root.
func Root() bool { return os.Geteuid() == 0 }

var needRoot struct {
	sync.Mutex
	names []string
}

// NeedRoot skips a test that only root can do. Main says which ones.
func NeedRoot(t testing.TB) {
	t.Helper()
	if Root() {
		return
	}
	needRoot.Lock()
	needRoot.names = append(needRoot.names, t.Name())
	needRoot.Unlock()
	if os.Getenv(asUserEnv) != "" {
		t.Skip("needs root, and was run as root before")
	}
	Skip(t, "root", "needs root")
}

// Long reports whether tests are to do much more than usual: NSRUN_LONG is set, as make test-long
// does. Usually they end within some seconds.
func Long() bool { return os.Getenv("NSRUN_LONG") != "" }

// Rounds is how often something is repeated: usually, or with NSRUN_LONG.
func Rounds(usual, long int) int {
	if Long() {
		return long
	}
	return usual
}

// NeedLong skips a test that takes long, whatever it does.
func NeedLong(t testing.TB) {
	t.Helper()
	if !Long() {
		Skip(t, "long", "set NSRUN_LONG, or make test-long")
	}
}

// Once skips a test in root's second run, as an ordinary user: what it shows does not depend on
// who runs it. With NSRUN_LONG it runs twice.
func Once(t testing.TB) {
	t.Helper()
	if Again() {
		t.Skip("does not depend on the user, and was run as root before")
	}
}

// Again reports whether this is root's second run, in which what does not depend on who runs it
// may be left out; with NSRUN_LONG nothing is.
func Again() bool { return os.Getenv(asUserEnv) != "" && !Long() }

// Turn reports whether the i-th case of a table is to be run: of two cases next to each other one
// is root's, and the other one that of root's second run, so that both together run each once.
// With NSRUN_LONG, and where there is but one run, because it is a user's or with NSRUN_TEST_ONCE, all are.
func Turn(i int) bool {
	if Long() || os.Getenv(onceEnv) != "" || !Root() && os.Getenv(asUserEnv) == "" {
		return true
	}
	return (i%2 == 0) == Root()
}

// TurnOf is Turn for a case that is known by its name.
func TurnOf(name string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return Turn(int(h.Sum32() >> 8 & 1))
}

// Whole reports whether tests run the whole of long tables: in make race, as root, and with NSRUN_LONG. In make test
// they run parts of those.
func Whole() bool { return Long() || os.Getenv(onceEnv) != "" }

// Part reports whether the i-th case of a long table is to be run: one of n where not the whole is.
func Part(i, n int) bool { return Whole() || i%n == 0 }

// Fewer is how often something is tried: n times, or half as often where not the whole is.
func Fewer(n int) int {
	if Whole() {
		return n
	}
	return (n + 1) / 2
}

// TakeTurns skips a subtest in the run whose turn it is not, see Turn.
func TakeTurns(t testing.TB) {
	t.Helper()
	switch {
	case TurnOf(t.Name()):
	case Root():
		t.Skip("takes long: it is for the ordinary user, and will be run as one")
	default:
		t.Skip("takes long, and was run as root before")
	}
}

// NeedCheckout skips a test that reads files of other directories. The ordinary
// user's second run has a copy of the package alone.
func NeedCheckout(t testing.TB) {
	t.Helper()
	if os.Getenv(asUserEnv) != "" {
		t.Skip("reads the checkout, and was run where that is before")
	}
}

// NeedUser skips a test that means nothing for root; root's second run does it.
func NeedUser(t testing.TB) {
	t.Helper()
	if Root() {
		t.Skip("is for ordinary users, and will be run as one")
	}
}

// notPromised are tests that take long, and features that a kernel has or not as it was configured, that the host's
// administrator gives or not, that depend on where the tests are started, or that are too large to be installed for
// a test: NSRUN_MUST_WORK=1 does not promise them, their names do.
var notPromised = []string{"long", "process-ids", "vfat", "tmpfs-quota", "no-terminal", "java", "gocryptfs", "cgroup controllers", "user manager", "immutable files", "ext4 in a file"}

// Skip skips a test that needs a feature this machine does not have. Where the
// environment promises the feature, that is a failure.
func Skip(t testing.TB, feature, why string) {
	t.Helper()
	if Must(feature) {
		t.Fatalf("%s must work here: %s", feature, why)
	}
	t.Skipf("without %s: %s", feature, why)
}

// Must reports whether the environment promises a feature.
func Must(feature string) bool {
	must := strings.FieldsFunc(os.Getenv("NSRUN_MUST_WORK"), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(must, feature) || slices.Contains(must, "1") && !slices.Contains(notPromised, feature)
}
