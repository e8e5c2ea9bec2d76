//go:build linux

package features

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(harmedEnv); how != "" {
		harm(how)
		if err := json.NewEncoder(os.Stdout).Encode(Probe()); err != nil {
			panic(err)
		}
		return
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// TestTable: every feature says since which version it exists, where that is written, what it is for, and, in one
// sentence, what does not work without it.
func TestTable(t *testing.T) {
	version, names := regexp.MustCompile(`^[2-9]\.[0-9]+(\.[0-9]+)?$`), map[Name]bool{}
	source := regexp.MustCompile(`^([a-z_0-9]+\([27]\)(, [A-Z_]+)?|commits? [0-9a-f]{12}( and [0-9a-f]{12})*)$`)
	for i := range table {
		e := &table[i]
		if e.Name == "" || names[e.Name] {
			t.Errorf("row %d: the name %q is not there, or twice", i, e.Name)
		}
		names[e.Name] = true
		ofHost := e.Since == "" && e.source == "" // not of the kernel
		if !ofHost && (!version.MatchString(e.Since) || !source.MatchString(e.source)) {
			t.Errorf("%s: since %q, says %q", e.Name, e.Since, e.source)
		}
		for what, text := range map[string]string{"For": e.For, "Needs": e.Needs, "Lost": e.Lost} {
			if text == "" || strings.HasSuffix(text, ".") || strings.ContainsAny(text, "\n\t") {
				t.Errorf("%s: %s is %q", e.Name, what, text)
			}
		}
		if e.try == nil || e.Status != Unknown || e.Why != "" {
			t.Errorf("%s: there is no probe, or the result is set already", e.Name)
		}
		if e.on != "" && (find(e.on) < 0 || find(e.on) >= i) {
			t.Errorf("%s depends on %q, which does not come before it", e.Name, e.on)
		}
		if d := Describe(e.Name); d != e.Feature {
			t.Errorf("Describe: %v", d)
		}
	}
	for _, name := range []Name{"", "none"} {
		if f := Get(name); f.Status != Unknown || f.Name != name || Has(name) {
			t.Errorf("%q: %v", name, f)
		}
	}
}

// TestTableGolden: what doctor prints of the table as JSON.
func TestTableGolden(t *testing.T) {
	list := make([]Feature, len(table))
	for i := range table {
		list[i] = table[i].Feature
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "\t")
	if err := enc.Encode(list); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "table.json", b.Bytes())
}

// TestProbe: every feature that is not there says why, and one that is there does not.
func TestProbe(t *testing.T) {
	testenv.Leaks(t)
	list := Probe()
	if len(list) != len(table) {
		t.Fatalf("%d of %d", len(list), len(table))
	}
	for i, f := range list {
		if f.Name != table[i].Name || (f.Why == "") != (f.Status == Yes) || (f.Err() == nil) != (f.Status == Yes) {
			t.Errorf("%+v", f)
		}
		if again := Get(f.Name); again.Status != f.Status || Has(f.Name) != (f.Status == Yes) {
			t.Errorf("%s is %s, and then %s", f.Name, f.Status, again.Status)
		}
		if f.Required && f.Status != Yes {
			testenv.Skip(t, string(f.Name), f.Why)
		}
	}
}

// TestNewMountCalls compares the answer with what calls that need no privilege say.
func TestNewMountCalls(t *testing.T) {
	testenv.Leaks(t)
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	if !Has(NewMountCalls) {
		testenv.Skip(t, string(NewMountCalls), "open_tree says "+errorText(err))
	}
	if err != nil {
		t.Errorf("the new mount calls are there, and open_tree says %v", err)
	}
	if err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}); err == unix.ENOSYS {
		t.Errorf("the new mount calls are there, and mount_setattr says %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return "yes"
	}
	return err.Error()
}

// TestErr: the error says in one sentence what is missing and what to do, and is an errors.ErrUnsupported only where
// that is known.
func TestErr(t *testing.T) {
	err := Lacks(LandlockScopes, unix.E2BIG)
	want := "this machine has no landlock scopes: argument list too long (it needs Linux 6.12, and landlock among the kernel's lsm= parameter)"
	if err.Error() != want || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, unix.E2BIG) {
		t.Errorf("%v", err)
	}
	if err := Lacks(ProcessNamespaces, unix.EPERM); !strings.HasSuffix(err.Error(), "; try: "+Describe(ProcessNamespaces).Remedy+")") {
		t.Errorf("%v", err)
	}
	unknown := Feature{Name: Kcmp, Why: "too many open files", cause: unix.EMFILE}.Err()
	if unknown.Error() != "nsrun could not find out whether this machine has kcmp: too many open files" ||
		errors.Is(unknown, errors.ErrUnsupported) || !errors.Is(unknown, unix.EMFILE) {
		t.Errorf("%v", unknown)
	}
	if err := (Feature{Status: Yes}).Err(); err != nil {
		t.Errorf("%v", err)
	}
	if err := (Feature{}).Err(); err == nil {
		t.Error("the zero Feature is available")
	}
}

// secondArgument is where a call's second argument is in struct seccomp_data.
const secondArgument = 24

// harmedEnv says what a process that runs Probe does to itself before.
const harmedEnv = "NSRUN_FEATURES_HARMED"

// harm takes this process all descriptors, or has calls that are probes fail with an error.
func harm(how string) {
	if how == "no descriptors" {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{}); err != nil {
			panic(err)
		}
		return
	}
	if how == "umask" {
		unix.Umask(0o777)
		return
	}
	if kind, ok := strings.CutPrefix(how, limitOf); ok {
		if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("1"), 0); err != nil {
			panic(err)
		}
		return
	}
	const refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	switch how {
	case "end":
		filterCalls(unix.SECCOMP_RET_KILL_PROCESS, endable, unix.SECCOMP_RET_ALLOW)
	case "end, and refuse openat2":
		filterCalls(refused, []uintptr{unix.SYS_OPENAT2}, unix.SECCOMP_RET_ALLOW)
		filterCalls(unix.SECCOMP_RET_KILL_PROCESS, slices.DeleteFunc(slices.Clone(endable), func(nr uintptr) bool { return nr == unix.SYS_OPENAT2 }), unix.SECCOMP_RET_ALLOW)
	default:
		errno, err := strconv.Atoi(how)
		if err != nil {
			panic(err)
		}
		action := unix.SECCOMP_RET_ERRNO | uint32(errno)
		filterCalls(action, probed, action)
	}
}

// filterCalls installs a filter for these calls, and for clone3(2), in all threads.
func filterCalls(action uint32, calls []uintptr, clone3 uint32) {
	// The filter loads the call's number; each refused call leads to the last line. It refuses clone3(2) only with
	// a size of 0, as the probe calls it: the C library of a build with cgo makes its threads by clone3(2).
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: secondArgument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jf: 1},
		{Code: unix.BPF_RET, K: clone3},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	for i, nr := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jt: uint8(len(calls) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET, K: action})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	// With TSYNC all threads get both.
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); e != 0 {
		panic(e)
	}
}

// probed are, with clone3(2), the calls that only probes make in a process that does nothing else; toldBy is what they
// tell about.
var probed = []uintptr{
	unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_CLOSE_RANGE, unix.SYS_RENAMEAT2, unix.SYS_SECCOMP, unix.SYS_MOUNT_SETATTR,
	unix.SYS_KEYCTL, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_BPF, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_OPEN, unix.SYS_KCMP,
	unix.SYS_FANOTIFY_INIT, unix.SYS_UNSHARE,
}

var toldBy = []Name{
	Openat2, Statx, CloseRange, Renameat2, NewMountCalls, Clone3, SessionKeys, LandlockScopes, BPF, PidfdGetfd, PidfdOpen, Kcmp,
	Fanotify, UserNamespaces, SeccompNotification, KillableCalls, LandlockTCP,
}

// endable are probed, but for calls that Go or a probe's process makes in any case.
var endable = slices.DeleteFunc(slices.Clone(probed), func(nr uintptr) bool {
	return nr == unix.SYS_CLOSE_RANGE || nr == unix.SYS_PIDFD_OPEN
})

// harmed is what a process finds that was harmed so.
func harmed(t *testing.T, how string) map[Name]Feature {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), harmedEnv+"="+how), os.Stderr
	if strings.HasPrefix(how, limitOf) { // its own limits
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []Feature
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := make(map[Name]Feature)
	for _, f := range list {
		found[f.Name] = f
	}
	return found
}

// limitOf begins how a process is harmed by a limit of one namespace of a kind.
const limitOf = "limit of "

// TestCloseLimits: one namespace of a kind is enough for all probes, because they are made one after the other. The
// control is a limit of cgroup namespaces, of which there is one probe.
func TestCloseLimits(t *testing.T) {
	testenv.Leaks(t)
	want := harmed(t, limitOf+"cgroup")
	for _, kind := range []string{"user", "mnt", "pid"} {
		testenv.Eventually(t, "the same with a limit of one "+kind+" namespace", func() bool { // the kernel takes its time
			found := harmed(t, limitOf+kind)
			for name, f := range want {
				if found[name].Status != f.Status && (kind != "mnt" || name != NewMountCalls) { // which take more than one
					t.Logf("%s: %s is %s: %s", kind, name, found[name].Status, found[name].Why)
					return false
				}
			}
			return true
		})
	}
}

// TestUmask: the caller's umask makes no difference.
func TestUmask(t *testing.T) {
	testenv.Leaks(t)
	found := harmed(t, "umask")
	for _, f := range Probe() {
		if got := found[f.Name]; got.Status != f.Status {
			t.Errorf("%s is %s: %s", f.Name, got.Status, got.Why)
		}
	}
}

// TestUnknown: if a probe could not be made, its result is neither yes nor no. As a control, the errors of a kernel
// that lacks the feature, and those of filters, mean no.
func TestUnknown(t *testing.T) {
	testenv.Leaks(t)
	here := Probe()
	t.Run("no descriptors", func(t *testing.T) {
		found := harmed(t, "no descriptors")
		for _, f := range here {
			switch got := found[f.Name]; {
			case got.Status != Unknown && got.Status != f.Status:
				t.Errorf("%s is %s (%s), and %s with descriptors", f.Name, got.Status, got.Why, f.Status)
			case got.Status == Unknown && got.Why == "":
				t.Errorf("%s is unknown, and does not say why", f.Name)
			}
		}
		for _, name := range []Name{UserNamespaces, Openat2, SeccompNotification, CgroupV2} {
			if got := found[name]; got.Status != Unknown || !strings.HasSuffix(got.Why, unix.EMFILE.Error()) {
				t.Errorf("%s is %s: %s", name, got.Status, got.Why)
			}
		}
		if got := found[Overlay]; got.Status != Unknown || got.Why != "not tested: it needs mount namespaces" {
			t.Errorf("%+v", got)
		}
	})
	for _, c := range []struct {
		errno unix.Errno
		want  Status
	}{{unix.ENOMEM, Unknown}, {unix.EINTR, Unknown}, {unix.EAGAIN, Unknown}, {unix.ENFILE, Unknown}, {unix.ENOSYS, No}, {unix.EPERM, No}} {
		t.Run(unix.ErrnoName(c.errno), func(t *testing.T) {
			found := harmed(t, strconv.Itoa(int(c.errno)))
			for _, name := range toldBy {
				if got := found[name]; got.Status != c.want || got.Why != c.errno.Error() && !(name == Openat2 && got.Why == "a seccomp filter refuses it, as that of an outer nsrun does: "+c.errno.Error()) {
					t.Errorf("%s is %s: %s", name, got.Status, got.Why)
				}
			}
		})
	}
}

// TestConfinedBy: a label of AppArmor names a profile that confines, or none.
func TestConfinedBy(t *testing.T) {
	for text, want := range map[string]string{
		"unconfined\n": "", "": "", "nsrun (unconfined)\n": "", "docker-default (enforce)\n": "docker-default",
		"/usr/bin/a b (complain)\x00": "/usr/bin/a b", "nsrun//&nsrun_command (enforce)\n": "nsrun//&nsrun_command",
	} {
		profile, confined := confinedBy(text)
		if confined != (want != "") || confined && profile != want {
			t.Errorf("%q: %q, %v", text, profile, confined)
		}
	}
}

// TestAppArmorRemedy: a program that embeds nsrun needs a profile of its own.
func TestAppArmorRemedy(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/nsrun": "nsrun doctor --fix as root, ", "/home/me/go/bin/nsrun": "nsrun doctor --fix as root, ",
		"/usr/local/libexec/nsrun/nsrun-mcp": "nsrun doctor --fix as root, ", "/opt/agent": "a profile of AppArmor with the rule \"userns,\" for /opt/agent, or sysctl ",
	} {
		if got := apparmorRemedy(program); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", program, got)
		}
	}
}

// TestControllersRemedy: doctor recommends doctor --fix only where that changes something.
func TestControllersRemedy(t *testing.T) {
	root := t.TempDir()
	if got := controllersRemedy(root, false); got == "" || strings.Contains(got, "--fix") {
		t.Errorf("without systemd: %q", got)
	}
	testenv.Tree(t, root, "run/systemd/system/", "sys/fs/cgroup/cgroup.controllers: cpu memory pids")
	if got := controllersRemedy(root, false); got != "sudo nsrun doctor --fix, and log in again" {
		t.Errorf("with systemd: %q", got)
	}
	if got := controllersRemedy(root, true); got != "" {
		t.Errorf("root: %q", got)
	}
}
