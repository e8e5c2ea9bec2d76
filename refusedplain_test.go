//go:build linux

package nsrun_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestRefusedPlain: messages that name what was refused in other words, without an error or with another one, lead to a
// flag. Where such a message gives another reason, or names what no rule refuses, nothing is named.
func TestRefusedPlain(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	testenv.Tree(t, dir, "ro/", "ro/f", "ro/s.pl")
	for i, q := range []struct{ command, message, flag string }{
		{"", "Error: Cannot find module '$D/hidden/f'", "--ro $D/hidden/f"},
		{"", "-e:1:in `load': cannot load such file -- $D/hidden/f (LoadError)", "--ro $D/hidden/f"},
		{"", "curl: (37) Couldn't open file $D/hidden/f", "--ro $D/hidden/f"},
		{"", "curl: (37) Couldn't open file://$D/hidden/f", "--ro $D/hidden/f"},
		{"", "CMake Error: Error processing file: $D/hidden/f", "--ro $D/hidden/f"},
		{"", "tar: $D/hidden/f: Cannot read: Bad file descriptor", "--ro $D/hidden/f"},
		{"", "ERROR: errno=2 : No such file or directory\n$D/hidden/f", "--ro $D/hidden/f"},
		{"", "Error creating directory \"$D/ro/new\".", "--rw $D/ro"},
		{"", "cmake -E touch: failed to update \"$D/ro/new\".", "--rw $D/ro"},
		{"", "Error copying file \"$D/hidden\" to \"$D/ro/new\".", "--rw $D/ro"},
		{"", "strip: $D/ro/new: Bad file descriptor", "--rw $D/ro"},
		{"", "Error: unable to open database \"$D/ro/x.db\": unable to open database file", "--rw $D/ro"},
		{"", "Error: cannot open \"$D/ro/x.db\"", "--rw $D/ro"},
		{": $D/ro/x &&", "sqlite3.OperationalError: unable to open database file", "--rw $D/ro"},
		{"", "npm error enoent ENOENT: no such file or directory, mkdir '$D/ro/new'", "--rw $D/ro"},
		{"", "install: cannot change permissions of ‘$D/ro/new’: No such file or directory", "--rw $D/ro"},
		{"", "Warning: Unable to connect to unix://$D/sock (Permission denied) in x on line 1", "--allow-unix $D/sock"},
		{"", "$D/ro/f:1395:in `initialize': Read-only file system @ rb_sysopen - $D/ro/new (Errno::EROFS)", "--rw $D/ro"},
		{"", "Error: Cannot find module '$D/none'", ""},
		{"", "Error: Cannot find module '$D/ro/f'", ""},
		{"", "error: cannot open $D/hidden/f: it has a wrong format", ""},
		{"", "error: cannot open $D/ro/f", ""},
		{"", "error: cannot open $D/ro/new", ""},
		{"", "$D/hidden/f:1: syntax error", ""},
		{"", "+ cat $D/hidden/f", ""},
		{"", "Error creating directory \"$D/none/new\".", ""},
		{"", "Error creating directory \"new\".", ""},
		{"", "strip: $D/ro/f is not an object: Bad file descriptor", ""},
		{"", "Bad file descriptor", ""},
		{"", "sqlite3.OperationalError: unable to open database file", ""},
		{": none/x &&", "sqlite3.OperationalError: unable to open database file", ""},
		{"", "ENOENT: no such file or directory, mkdir '$D/none/new'", ""},
		{"", "ENOENT: no such file or directory, open '$D/ro/new'", ""},
		{"", "ERROR: errno=2 : No such file or directory\n\n$D/hidden/f", ""},
		{": perl $D/ro/s.pl &&", "cannot open: Read-only file system at $D/ro/s.pl line 1.", ""},
		{": python3 -B $D/ro/s.pl &&", "OSError: [Errno 30] Read-only file system", ""},
		{"", "$D/ro/f:12: Read-only file system", ""},
	} {
		t.Run(q.message, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("message%d", i)
			if err := os.WriteFile(filepath.Join(c.Project, name), []byte(strings.ReplaceAll(q.message, "$D", dir)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			command := strings.ReplaceAll(q.command, "$D", dir) + " cat " + name + " >&2; false"
			res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
			flag := ""
			if len(res.Refusals) > 0 {
				flag = res.Refusals[0].Flag
			}
			if want := strings.ReplaceAll(q.flag, "$D", dir); err != nil || flag != want || len(res.Refusals) > 1 {
				t.Errorf("%v, %+v, want %q", err, res.Refusals, want)
			}
		})
	}
}

// TestRefusedTwice: where a program first writes to what it then removes, one flag is enough. A rule for a directory
// makes everything in it writable, also what an earlier rule named.
func TestRefusedTwice(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	for i, command := range []string{"find $D/d -delete", "find $D/d -depth -delete", "shred -u $D/f", "shred -n1 --remove=unlink $D/f", "find $D/d -name f -delete"} {
		own := fmt.Sprintf("%s/twice%d", dir, i)
		testenv.Tree(t, own, "d/", "d/f", "f")
		command = strings.ReplaceAll(command, "$D", own)
		for _, c.Why = range [...]bool{false, true} {
			needFor(t, c)
			res, err := runner(t, c).Run(t.Context(), passing(t, command, true))
			want := "--rw " + own
			if strings.Contains(command, "-name") {
				want += "/d"
			}
			if err != nil || len(res.Refusals) == 0 || c.Why && !slices.ContainsFunc(res.Refusals, func(r nsrun.Refusal) bool { return r.Flag == want }) || !c.Why && res.Refusals[0].Flag != want {
				t.Errorf("%s, why %t: %v, %+v, want %s", command, c.Why, err, res.Refusals, want)
			}
		}
		c := allowed(t, allowed(t, c, "--rw "+own+"/f"), "--rw "+own+"/d")
		if res, err := runner(t, allowed(t, c, "--rw "+own)).Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with three rules: %v, %s", command, err, res)
		}
	}
}

// TestRefusedSilently: programs that fail without a message, and whose command line tells what they could not do.
func TestRefusedSilently(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	testenv.Tree(t, dir, "ro/", "ro/f")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, status := range map[string]int{"curl": 7, "wget": 4, "nc": 1} {
		if err := os.WriteFile(filepath.Join(c.Project, name), fmt.Appendf(nil, "#!/bin/sh\nexit ${1:-%d}\n", status), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.Project, "x"+name), fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", status), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := l.Addr().String()
	host, port, _ := net.SplitHostPort(at)
	for _, q := range []struct{ command, flag string }{
		{"test -e $D/hidden/f", "--ro $D/hidden/f"}, {"test -f $D/hidden/f", "--ro $D/hidden/f"}, {"[ -e $D/hidden/f ]", "--ro $D/hidden/f"},
		{"readlink -e $D/hidden/f", "--ro $D/hidden/f"}, {"test -e $D/none", ""}, {"test -d $D/hidden/f", ""}, {"test -f $D/hidden", ""}, {"readlink $D/hidden/f", ""},
		{"test -f ../host/hidden", ""}, {"test -e $D/ro/none", ""}, {"cmp -s t.tar $D/ro/f", ""}, {"test -e $D/hidden/f; false", ""}, {"test $D/hidden/f = a", ""}, {"test -e $D/hidden/f 2>/dev/null", ""},
	} {
		for _, through := range [...]bool{true, false} {
			command := strings.ReplaceAll(q.command, "$D", dir)
			flag := ""
			res, err := runner(t, c).Run(t.Context(), passing(t, command, through))
			if len(res.Refusals) > 0 {
				flag = res.Refusals[0].Flag
			}
			if want := strings.ReplaceAll(q.flag, "$D", dir); err != nil || res.ExitCode == 0 || flag != want {
				t.Errorf("%s, %t: %v, %+v: %s", command, through, err, res.Refusals, res)
			}
		}
	}
	for _, q := range []struct {
		args  []string
		named bool
	}{
		{[]string{"./nc", "", host, port}, true}, {[]string{"./curl", "", "http://" + at + "/"}, true}, {[]string{"./wget", "", "http://" + at}, true},
		{[]string{"./curl", "22", "http://" + at + "/"}, false}, {[]string{"./xcurl", "", "http://" + at + "/"}, false}, {[]string{"./nc", "", host, "1"}, false},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Args: q.args})
		if err != nil || (len(res.Refusals) > 0) != q.named || q.named && res.Refusals[0].Flag != "--allow-net tcp:"+at {
			t.Errorf("%q: %v, %+v: %s", q.args, err, res.Refusals, res)
		}
	}
}
