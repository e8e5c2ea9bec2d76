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
		{"", "Error copying file \"$D/hidden/f\" to \"o\".", "--ro $D/hidden/f"},
		{"", "cp: cannot copy $D/hidden/f to $P/o", "--ro $D/hidden/f"},
		{"", "Cannot find file $D/hidden/f.", "--ro $D/hidden/f"},
		{"", "No file named $D/hidden/f", "--ro $D/hidden/f"},
		{"", "ERROR! the playbook: $D/hidden/f could not be found", "--ro $D/hidden/f"},
		{"", "Error: /undefinedfilename in ($D/hidden/f)", "--ro $D/hidden/f"},
		{": $D/hidden/f &&", "init terminating in do_boot ({{badmatch,{error,enoent}},[{erl_eval,expr,6}]})", "--ro $D/hidden/f"},
		{": -sOutputFile=$D/ro/new &&", "**** Could not open the file $D/ro/new .", "--rw $D/ro"},
		{": -o $D/ro/f &&", "Could not open the file $D/ro/f", "--rw $D/ro/f"},
		{": -output-directory=$D/ro &&", "! I can't write on file `in.log'.", "--rw $D/ro"},
		{": mkdirSync x {recursive:true} &&", "Error: ENOENT: no such file or directory, mkdir '$D/ro/new/x'", "--rw $D/ro"},
		{"", "strip: $D/ro/new: Bad file descriptor", "--rw $D/ro"},
		{"", "Error: unable to open database \"$D/ro/x.db\": unable to open database file", "--rw $D/ro"},
		{"", "Error: cannot open \"$D/ro/x.db\"", "--rw $D/ro"},
		{": $D/ro/x &&", "sqlite3.OperationalError: unable to open database file", "--rw $D/ro"},
		{"", "npm error enoent ENOENT: no such file or directory, mkdir '$D/ro/new'", "--rw $D/ro"},
		{"", "install: cannot change permissions of ‘$D/ro/new’: No such file or directory", "--rw $D/ro"},
		{"", "Warning: Unable to connect to unix://$D/sock (Permission denied) in x on line 1", "--allow-unix $D/sock"},
		{"", "$D/ro/f:1395:in `initialize': Read-only file system @ rb_sysopen - $D/ro/new (Errno::EROFS)", "--rw $D/ro"},
		{"", "CMake Error at x:3 (file):\n  file failed to open for writing (Read-only file system):\n\n    $D/ro/new", "--rw $D/ro"},
		{"", "Exception in thread \"main\" java.nio.file.AccessDeniedException: $D/hidden/f", "--ro $D/hidden/f"},
		{"", "java.nio.file.NoSuchFileException: $D/hidden/f", "--ro $D/hidden/f"},
		{"", "PHP Warning:  file_get_contents($D/hidden/f): Failed to open stream: Permission denied in x on line 1", "--ro $D/hidden/f"},
		{"", "unzip:  cannot find or open $D/hidden/f, $D/hidden/f.zip or $D/hidden/f.ZIP.", "--ro $D/hidden/f"},
		{"", "sh: 1: cd: can't cd to $D/hidden", "--ro $D/hidden"},
		{"", "zip warning: name not matched: $D/hidden/f", "--ro $D/hidden/f"},
		{"", "{error,erofs} $D/ro/new", "--rw $D/ro"},
		{": $D/hidden/f &&", "zip error: Nothing to do! (x.zip)", "--ro $D/hidden/f"},
		{": $D/hidden/f &&", "Permission denied at -e line 1.", "--ro $D/hidden/f"},
		{": $D/hidden/f &&", "open: No such file or directory", "--ro $D/hidden/f"},
		{": $D/ro/new &&", "x:1: error: error while writing X: could not create parent directories", "--rw $D/ro"},
		{": zip $D/ro/f &&", "zip error: Could not create output file ($D/ro/f)", "--rw $D/ro"},
		{": $D/hidden/f &&", "gone: No such file or directory", ""},
		{": $D/hidden/f &&", "zip error: Zip file structure invalid (x.zip)", ""},
		{": $D/ro/new &&", "error: could not create a socket", ""},
		{": $D/none/new &&", "error: could not create directories", ""},
		{"", "Cannot find file $D/none.", ""},
		{"", "Could not open the file $D/ro/new .", ""},
		{": $D/ro/new &&", "Could not open the file $D/ro/new .", ""},
		{": --timeout $D/ro/f &&", "Could not open the file $D/ro/f", ""},
		{": -output-directory=$P &&", "! I can't write on file `in.log'.", ""},
		{": -I $D/ro &&", "! I can't write on file `in.log'.", ""},
		{": mkdirSync x &&", "Error: ENOENT: no such file or directory, mkdir '$D/ro/new/x'", ""},
		{": $D/hidden/f &&", "{error,closed}", ""},
		{"", "unzip:  cannot find or open $D/ro/f, $D/ro/f.zip or $D/ro/f.ZIP.", ""},
		{"", "CMake Error at x:3 (file):\n  file failed to open for writing (No such file):\n\n    $D/none/new", ""},
		{"", "failed (Read-only file system):\n\nall is well\n$D/ro/new", ""},
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
	for _, name := range []string{"vim", "ex"} {
		if err := os.WriteFile(filepath.Join(c.Project, name), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(command, flag string) {
		command, flag = strings.ReplaceAll(command, "$D", dir), strings.ReplaceAll(flag, "$D", dir)
		for _, through := range [...]bool{true, false} {
			got := ""
			res, err := runner(t, c).Run(t.Context(), passing(t, command, through))
			if len(res.Refusals) > 0 {
				got = res.Refusals[0].Flag
			}
			if err != nil || res.ExitCode == 0 || got != flag {
				t.Errorf("%s, %t: %v, %+v: %s", command, through, err, res.Refusals, res)
			}
		}
	}
	for _, q := range []struct{ command, flag string }{
		{"./vim -es -c w -c qa $D/ro/f", "--rw $D/ro/f"}, {"./vim -es -c 'w $D/ro/new' -c qa a", "--rw $D/ro"}, {"./vim -es -u NONE a $D/ro/new -c wq", "--rw $D/ro"},
		{"./ex -s -c '%s/a/b/|x' $D/ro/f", "--rw $D/ro/f"}, {"./vim -es +wqa $D/ro/f", "--rw $D/ro/f"}, {"./vim -es -c 'silent! w! $D/ro/f' -c qa", "--rw $D/ro/f"},
		{"./vim -es -c w -c 'cq 1' $D/ro/f", ""}, {"./vim -es -c q $D/ro/f", ""}, {"./vim -es -c w a", ""}, {"./vim -c w $D/ro/f", ""}, {"./vim -es -c 'w !cat $D/ro/f' a", ""},
		{"./vim -es -c w $D/ro/f >a", ""}, {"./vim -es -c 'w $D/none/new' a", ""},
	} {
		check(q.command, q.flag)
	}
	at := l.Addr().String()
	host, port, _ := net.SplitHostPort(at)
	for _, q := range []struct{ command, flag string }{
		{"test -e $D/hidden/f", "--ro $D/hidden/f"}, {"test -f $D/hidden/f", "--ro $D/hidden/f"}, {"[ -e $D/hidden/f ]", "--ro $D/hidden/f"},
		{"readlink -e $D/hidden/f", "--ro $D/hidden/f"}, {"test -e $D/none", ""}, {"test -d $D/hidden/f", ""}, {"test -f $D/hidden", ""}, {"readlink $D/hidden/f", ""},
		{"test -f ../host/hidden", ""}, {"test -e $D/ro/none", ""}, {"cmp -s t.tar $D/ro/f", ""}, {"test -e $D/hidden/f; false", ""}, {"test $D/hidden/f = a", ""}, {"test -e $D/hidden/f 2>/dev/null", ""},
	} {
		check(q.command, q.flag)
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

// TestRefusedCurl: curl -s says nothing of a file that it cannot write to, nor of a unix socket.
func TestRefusedCurl(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	testenv.Tree(t, dir, "ro/", "ro/f")
	if err := os.WriteFile(filepath.Join(c.Project, "curl"), []byte("#!/bin/sh\nexit $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ args, flag string }{
		{"23 -so $D/ro/f file:///dev/null", "--rw $D/ro/f"}, {"23 -s --output $D/ro/new file:///dev/null", "--rw $D/ro"}, {"7 -s --unix-socket $D/sock http://x/", "--allow-unix $D/sock"},
		{"22 -so $D/ro/f file:///dev/null", ""}, {"23 -so new file:///dev/null", ""}, {"6 -s --unix-socket $D/sock http://x/", ""}, {"7 -s --unix-socket $D/none http://x/", ""},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Args: strings.Fields("./curl " + strings.ReplaceAll(q.args, "$D", dir))})
		flag := ""
		if len(res.Refusals) > 0 {
			flag = res.Refusals[0].Flag
		}
		if want := strings.ReplaceAll(q.flag, "$D", dir); err != nil || res.ExitCode == 0 || flag != want {
			t.Errorf("%s: %v, %+v: %s", q.args, err, res.Refusals, res)
		}
	}
}

// TestRefusedOnOutput: of programs that print their errors on standard output nsrun looks at that, too, of others not.
func TestRefusedOnOutput(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	testenv.Tree(t, dir, "ro/")
	for _, name := range []string{"zip", "redis-server", "other"} {
		script := "#!/bin/sh\necho 'cannot create file: " + dir + "/ro/new: Read-only file system'\nexit 15\n"
		if err := os.WriteFile(filepath.Join(c.Project, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, through := range [...]bool{true, false} {
			q := passing(t, "./"+name, through)
			if q.Passthrough {
				q.Stdout = q.Stderr
			}
			res, err := runner(t, c).Run(t.Context(), q)
			named := len(res.Refusals) == 1 && res.Refusals[0].Flag == "--rw "+filepath.Join(dir, "ro")
			if err != nil || named != (name != "other") || !named && len(res.Refusals) > 0 {
				t.Errorf("%s, through %t: %v, %+v: %s", name, through, err, res.Refusals, res)
			}
		}
	}
}

// TestRefusedNetworkAside: if the messages of a command are about a mistake in its arguments or files, and nothing is
// about the network, it did not fail because there is none.
func TestRefusedNetworkAside(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard}
	for _, q := range []struct {
		message string
		named   bool
	}{
		{"failed", true}, {"could not get data", true}, {"unknown option, and could not resolve host", true}, {"warning: unknown option", true}, {"an unknown error", true},
		{"unknown command \"x\"", false}, {"Error: Missing name for resource", false}, {"unable to find required default_backend: c.", false}, {"usage: x [FILE]", false},
	} {
		command := "bash -c ': </dev/tcp/192.0.2.1/443' 2>/dev/null; echo '" + q.message + "' >&2; exit 1"
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
		named := len(res.Refusals) == 1 && res.Refusals[0].Rule == "network"
		if err != nil || named != q.named || (res.Network.Refused > 0) != q.named {
			t.Errorf("%s: %v, %+v, %d: %s", q.message, err, res.Refusals, res.Network.Refused, res)
		}
	}
}

// TestWhyHearsLimits: with Config.Why, too, messages say that a limit was reached of which the kernel does not tell.
func TestWhyHearsLimits(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Limits: nsrun.Limits{OpenFiles: 64}}
	for _, c.Why = range [...]bool{false, true} {
		needFor(t, c)
		for _, through := range [...]bool{true, false} {
			for message, hit := range map[string]bool{"a: Too many open files": true, "a: too many words": false} {
				res, err := runner(t, c).Run(t.Context(), passing(t, `perl -e 'print STDERR "`+message+`\n"; exit 1'`, through))
				named := len(res.Refusals) == 1 && res.Refusals[0].Flag == "--nofile 128"
				if err != nil || len(res.Limits) != 1 || res.Limits[0].Hit != hit || named != hit {
					t.Errorf("why %t, through %t, %s: %v, %+v, %+v: %s", c.Why, through, message, err, res.Limits, res.Refusals, res)
				}
			}
		}
	}
}
