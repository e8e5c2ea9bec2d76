//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestOwners: in a session root's command has root's rights without Config.OwnIDs, whichever engine keeps the changes
// apart. Files keep their owners, also after a commit and an undo. Elsewhere root is root of the host without
// privileges.
func TestOwners(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineTmpfs, overlay.EngineCopy} {
		t.Run(engine.String(), func(t *testing.T) {
			dir := place(t, "f: x\n", "theirs/f: y\n", "theirs/secret: z\n", "moved/f: m\n")
			needOwnIDs(t, dir)
			livesIn(t, dir, "/srv")
			p := filepath.Join(dir, "p")
			for _, name := range []string{"theirs", "theirs/f", "theirs/secret", "moved", "moved/f"} {
				if err := os.Chown(filepath.Join(p, name), 1234, 1235); err != nil {
					t.Fatal(err)
				}
			}
			for name, mode := range map[string]os.FileMode{"theirs/secret": 0o600, "theirs": 0o700} {
				if err := os.Chmod(filepath.Join(p, name), mode); err != nil {
					t.Fatal(err)
				}
			}
			r := runner(t, nsrun.Config{Project: p, Engine: engine})
			for _, tc := range []struct{ name, script, want string }{
				{"id", "id -u; id -g; head -n 2 /proc/self/uid_map | tr -s ' '", fmt.Sprintf("0\n0\n 0 0 1\n 1 %d %d\n", idmap.First+1, idmap.Count-1)},
				{"read", "cat theirs/secret; stat -c %u:%g theirs theirs/f f", "z\n1234:1235\n1234:1235\n0:0\n"},
				{"write", "echo more >>theirs/secret; echo n >theirs/n; stat -c %u:%g theirs/secret theirs/n", "1234:1235\n0:0\n"},
				{"give away", "echo g >g; chown 1:2 g; chmod 640 g; touch -d @7 g; stat -c '%u:%g %a %Y' g", "1:2 640 7\n"},
				{"archive", "mkdir t; echo a >t/a; chown -R 1234:1235 t; tar cf t.tar t; rm -r t; tar xf t.tar; stat -c %u:%g t t/a", "1234:1235\n1234:1235\n"},
				{"set-group-id", "mkdir s; chgrp 7 s; chmod 2775 s; mkdir s/t; stat -c '%a %g' s s/t", "2775 7\n2755 7\n"},
				{"remove", "rm theirs/f; ls theirs", "n\nsecret\n"},
				{"rename a directory", "mv moved there && cat there/f && stat -c %u there there/f", "m\n1234\n1234\n"},
				{"somebody else", "setpriv --reuid 1234 --regid 1235 --clear-groups sh -c 'id -u; cat theirs/secret; cat f; echo no >f' 2>&1", "1234\nz\nmore\nx\nsh: 1: cannot create f: Permission denied\n"},
				{"files of the system", "stat -c %U:%G /usr/bin/env /etc/passwd", "root:root\nroot:root\n"},
				{"private places", "touch /tmp/f; chown 1:2 /tmp/f; stat -c %u:%g /tmp/f", "1:2\n"},
			} {
				if got := printed(t, r, tc.script); got != tc.want {
					t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
				}
			}
			id := r.Session().ID()
			if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"g": "1:2", "t/a": "1234:1235", "theirs/secret": "1234:1235", "theirs/n": "0:0", "theirs": "1234:1235", "there": "1234:1235", "f": "0:0", "s/t": "0:7",
			} {
				if got := owner(t, p, name); got != want {
					t.Errorf("committed %s: %s, want %s", name, got, want)
				}
			}
			s, err := overlay.Open("", id)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Undo(t.Context(), overlay.UndoOptions{}), s.Close()); err != nil {
				t.Fatal(err)
			}
			if got := owner(t, p, "theirs/f") + " " + content(p, "theirs/secret") + content(p, "g"); got != "1234:1235 z\n-" {
				t.Errorf("undone: %q", got)
			}
		})
	}
}

// TestOwnersHigh: files whose owner or group has a high id can be changed like others, as those of a domain's users or
// of a container. They keep it.
func TestOwnersHigh(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, id := range []int{idmap.Count, 500000000, idmap.First + 1, 1<<31 - 1, 1<<32 - 2} {
		dir := place(t, "owner/", "group/", "both/")
		needOwnIDs(t, dir)
		p := filepath.Join(dir, "p")
		owners := map[string][2]int{"owner": {id, 0}, "group": {0, id}, "both": {id, id}}
		for name, ids := range owners {
			sub := filepath.Join(p, name)
			testenv.Tree(t, sub, "moved: m\n", "written: w\n", "removed: r\n", "linked: l\n", "d/f: f\n", "into/")
			for _, f := range []string{"moved", "written", "removed", "linked", "d", "d/f", "into"} {
				if err := os.Chown(filepath.Join(sub, f), ids[0], ids[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, own := range []bool{false, true} {
			r := runner(t, nsrun.Config{Project: p, OwnIDs: own})
			for name, ids := range owners {
				want := fmt.Sprintf("%d:%d", ids[0], ids[1])
				got := printed(t, r, "cd "+name+" && mv moved m && echo x >>written && rm removed && ln linked l && mv d e && touch into/n && "+
					"stat -c %u:%g m written l e e/f into | sort -u")
				if got != want+"\n" {
					t.Errorf("%s is %d (own ids: %v): %q", name, id, own, got)
				}
			}
			s := r.Session()
			if err := s.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for name, ids := range owners {
				for _, f := range []string{"m", "written", "l", "e", "e/f", "into"} {
					if want, got := fmt.Sprintf("%d:%d", ids[0], ids[1]), owner(t, p, name, f); got != want {
						t.Errorf("%s is %d (own ids: %v): committed %s: %s", name, id, own, f, got)
					}
				}
			}
			if err := s.Undo(t.Context(), overlay.UndoOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOwnersPlayground: a command can give its project's playground away, and the next one has it nevertheless. A
// directory of the caller's is written in place, so root's command has no such rights then.
func TestOwnersPlayground(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard}
	r := runner(t, c)
	for _, tc := range []struct{ script, want string }{
		{"cd ~/playground; echo 1 >f; chown -R 1234:1235 .; stat -c %u f .", "1234\n1234\n"},
		{"cd ~/playground; echo 2 >g; cat f; stat -c %u f .", "1\n1234\n0\n"},
	} {
		if got := printed(t, r, tc.script); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.script, got, tc.want)
		}
	}
	testenv.Tree(t, dir, "named/f: n\n")
	c.Playground = filepath.Join(dir, "named")
	if got := printed(t, runner(t, c), "chown 1234 ~/playground/f 2>/dev/null; stat -c %u ~/playground/f"); got != "0\n" {
		t.Errorf("in the caller's directory: %q", got)
	}
	if err := os.Chown(c.Playground, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if got := printed(t, runner(t, c), "ls ~/playground 2>/dev/null"); got != "" || owner(t, c.Playground) != "1234:1234" {
		t.Errorf("somebody else's directory: %q, %s", got, owner(t, c.Playground))
	}
}

// TestOwnersView: View says what a command would have on this file system.
func TestOwnersView(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	testenv.Tree(t, dir, "upper/", "work/", "at/")
	at := filepath.Join(dir, "at")
	options := fmt.Sprintf("lowerdir=%s/p,upperdir=%s/upper,workdir=%s/work", dir, dir, dir)
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		testenv.Skip(t, "an overlay", err.Error())
		return
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	for _, project := range []string{filepath.Join(dir, "p"), at} {
		r := nsrun.NewRunner(nsrun.Config{Project: project, After: nsrun.Discard})
		v, err := r.View(t.Context(), nsrun.Request{Command: "true"})
		if err != nil {
			t.Fatal(err)
		}
		can := strings.HasSuffix(printed(t, r, "echo a >a; chown 1 a 2>/dev/null; stat -c %u a"), "1\n")
		if v.Owners != can || can != (project != at) {
			t.Errorf("%s: View says %v, and the command can: %v", project, v.Owners, can)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if v, err = r.View(t.Context(), nsrun.Request{Command: "true"}); err != nil || v.Owners != can { // and nothing stays open
			t.Errorf("%s: closed: %v, %v", project, v.Owners, err)
		}
	}
}

// TestOwnersWhy: of the host, root's command reads what belongs to user and group root, whatever the permissions are,
// and Why says so. What belongs to others, or lies in a closed directory of theirs, it does not read.
func TestOwnersWhy(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	testenv.Tree(t, dir, "srv/", "srv/closed: 1", "srv/group: 2", "srv/theirs: 3", "srv/dir/", "srv/dir/f: 4", "srv/dir/sub/", "srv/others/", "srv/others/f: 5")
	srv := filepath.Join(dir, "srv")
	for name, ids := range map[string][2]int{"group": {0, 7}, "theirs": {7, 7}, "others": {7, 7}} {
		if err := os.Chown(filepath.Join(srv, name), ids[0], ids[1]); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"closed": 0, "group": 0, "theirs": 0, "dir": 0, "others": 0o700} {
		if err := os.Chmod(filepath.Join(srv, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	isAt(t, srv, "/srv")
	for _, mode := range []nsrun.Mode{0, nsrun.Direct} {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Mode: mode})
		for name, session := range map[string]bool{"closed": true, "group": false, "theirs": false, "dir/f": true, "dir/sub": true, "others/f": false} {
			name = filepath.Join("/srv", name)
			res, err := r.Run(t.Context(), nsrun.Request{Args: []string{"test", "-r", name}})
			if err != nil {
				t.Fatal(err)
			}
			why, err := r.Why(t.Context(), nsrun.Request{Command: "true"}, name)
			can := res.ExitCode == 0
			if err != nil || why.Read != can || can != (session && mode == 0) {
				t.Errorf("%v, %s: the command can read it: %v, and Why says %+v, %v", mode, name, can, why, err)
			}
		}
	}
}

// TestOwnersContinued: a session to which a command without these rights wrote goes on with one that has them, and the
// reverse.
func TestOwnersContinued(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "d/f: x\n", "old: o\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	testenv.Tree(t, dir, "out/")
	direct := []nsrun.Rule{{Mode: nsrun.Direct, Pattern: filepath.Join(dir, "out")}}
	session := ""
	for i, tc := range []struct {
		rules        []nsrun.Rule
		script, want string
	}{
		{direct, "mv d e; rm old; echo n >n; chown 1 n || echo refused", "refused"},
		{nil, "cat e/f; ls; chown 1:2 e/f n; mv e d2; stat -c %u d2/f", "x\ne\nn\n1\n"},
		{direct, "ls; stat -c %u:%g d2/f n; mv d2 d; cat d/f", "d2\nn\n1:2\n1:2\nx\n"},
		{nil, "mkdir old; chown 3 old; ls -A d", "f\n"},
	} {
		c := nsrun.Config{Session: session, Rules: tc.rules}
		if session == "" {
			c.Project = p
		}
		r := runner(t, c)
		if got := printed(t, r, tc.script); !strings.HasSuffix(strings.TrimSpace(got), strings.TrimSpace(tc.want)) {
			t.Errorf("%d: %q, want %q", i, got, tc.want)
		}
		session = r.Session().ID()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := overlay.Open("", session)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(owner(t, p, "d/f"), " ", owner(t, p, "n"), " ", owner(t, p, "old")); got != "1:2 1:2 3:0" {
		t.Error(got)
	}
}

// TestOwnersGainNothing: what root's command gains in a session does not reach beyond it. Each attempt succeeds for
// root outside.
func TestOwnersGainNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "sub/hidden: secret\n", "hole/f: secret\n", "hole/shown: s\n")
	needOwnIDs(t, dir)
	p := filepath.Join(dir, "p")
	livesIn(t, dir, "/srv")
	testenv.Tree(t, dir, "home/.ssh/key: secret\n", "home/.local/state/nsrun/sessions/", "home/.cache/go-build/", "others/f: secret\n", "others/d/")
	for _, name := range []string{"others", "others/f", "others/d"} {
		if err := errors.Join(os.Chown(filepath.Join(dir, name), 1234, 1234), os.Chmod(filepath.Join(dir, name), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "others"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(dir, "others"), "/mnt", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/mnt", unix.MNT_DETACH)
	c := nsrun.Config{Project: p, After: nsrun.Discard, Rules: []nsrun.Rule{
		{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "sub/hidden")}, {Mode: nsrun.Blocked, Pattern: filepath.Join(p, "hole")}, {Mode: nsrun.ReadOnly, Pattern: filepath.Join(p, "hole/shown")},
	}}
	python := func(text string) string { return "python3 -c '" + text + "; print(\"won\")'" }
	for _, tc := range []struct{ name, script string }{
		{"others' files", "cat /mnt/f && echo won"},
		{"others' directories", "ls /mnt/d && echo won"},
		{"others' directories of the system", "ls /var/cache/apt/archives/partial && echo won"},
		{"others' files, as their user", "setpriv --reuid 1234 --regid 1234 --clear-groups cat /mnt/f && echo won"},
		{"owners of the host's files", "chown 1:1 /etc/passwd && echo won; chown 0:0 /etc/passwd"},
		{"modes of the host's files", "chmod 644 /etc/passwd && echo won"},
		{"owners of devices", "chown 0:0 /dev/null && echo won"},
		{"modes of devices", "chmod 666 /dev/null && echo won"},
		{"owners of what others own", "chown 0:0 /mnt/f && echo won; chown 1234:1234 /mnt/f"},
		{"sysctl", "v=$(cat /proc/sys/vm/swappiness); echo $v >/proc/sys/vm/swappiness && echo won"},
		{"mounts", "unshare -m mount -t tmpfs t /media && echo won"},
		{"unmounting what covers", "unshare -m umount /dev/shm && echo won"},
		{"user namespaces", "unshare -Ur true && echo won"},
		{"device nodes", "mknod node b 7 0 && rm node && echo won"},
		{"set-user-id", "cp /bin/true s && chmod 4755 s && test -u s && rm s && echo won"},
		{"set-group-id of a file that is written to", "cp /bin/true s; chgrp 7 s; chmod 2755 s; echo >>s; test -g s && echo won; rm s; test ! -e s"},
		{"a rename through others' directories", "mkdir r1; " + python("import os; os.rename(\"/mnt/d/../.."+p+"/r1\", \"r2\"); os.rmdir(\"r2\")")},
		{"a link through others' directories", python("import os; os.link(\"/mnt/d/../.." + p + "/f\", \"r3\"); os.unlink(\"r3\")")},
		{"a rename through others' directories, by a link", "ln -sfn /mnt/d out; mkdir r1; " + python("import os; os.rename(\"out/../.."+p+"/r1\", \"r2\"); os.rmdir(\"r2\")")},
		{"trusted attributes", python("import os; os.setxattr(\"f\", \"trusted.n\", b\"v\")")},
		{"security attributes", python("import os; os.setxattr(\"f\", \"security.capability\", bytes.fromhex(\"0000000200200000000000000000000000000000\"))")},
		{"raw sockets", python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")},
		{"handles", python("import ctypes, os; l = ctypes.CDLL(None); h = (ctypes.c_uint*34)(128); m = ctypes.c_int(); " +
			"assert l.name_to_handle_at(-100, b\"/\", h, ctypes.byref(m), 0) == 0; assert l.open_by_handle_at(os.open(\"/\", 0), h, 0) >= 0")},
		{"priority", "nice -n -1 true 2>&1 | grep -q . || echo won"},
		{"what is blocked", "grep secret sub/hidden && echo won"},
		{"what is blocked, as its owner", "chown 1 sub/hidden; chmod 777 sub/hidden; grep secret sub/hidden && echo won; chown 0 sub/hidden"},
		{"what is blocked, renamed", "mv sub moved && grep secret moved/hidden && mv moved sub && echo won"},
		{"a directory with an exception", "cat hole/f && echo won"},
		{"a new name there", "touch hole/n && rm hole/n && echo won"},
		{"secrets of the home directory", "cat /srv/.ssh/key && echo won"},
		{"sessions", "ls /srv/.local/state/nsrun/sessions && echo won"},
	} {
		control, err := exec.Command("sh", "-c", "cd "+p+"; exec 2>&1; "+tc.script).Output()
		if !strings.HasSuffix(string(control), "won\n") {
			testenv.Skip(t, tc.name+" outside", fmt.Sprintf("%v, %s", err, control))
			continue
		}
		if got := printed(t, runner(t, c), tc.script); strings.Contains(got, "won") || strings.Contains(got, "secret\n") {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

// TestOwnersInPlace: where something is written in place, root's command has no such rights. (Control: in a session it
// has, and no power over PID 1.)
func TestOwnersInPlace(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	p := filepath.Join(dir, "p")
	livesIn(t, dir, "/srv")
	testenv.Tree(t, dir, "home/.cache/go-build/")
	c := nsrun.Config{Project: p, After: nsrun.Discard}
	if got := printed(t, runner(t, c), "cat /proc/1/environ && echo won; kill -9 1; echo alive"); strings.Contains(got, "won") || !strings.HasSuffix(got, "alive\n") {
		t.Errorf("PID 1: %s", got)
	}
	testenv.Tree(t, dir, "out/f: o\n")
	for _, tc := range []struct {
		c    nsrun.Config
		want string
	}{
		{nsrun.Config{Project: p, After: nsrun.Discard}, "0\n"},
		{nsrun.Config{Project: p, Mode: nsrun.Direct}, "1\n"},
		{nsrun.Config{Project: p, Mode: nsrun.ReadOnly}, "1\n"},
		{nsrun.Config{Project: p, After: nsrun.Discard, Rules: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: filepath.Join(dir, "out")}}}, "1\n"},
		{nsrun.Config{Project: p, After: nsrun.Discard, Presets: []nsrun.Preset{nsrun.BuildPreset}}, "1\n"},
		{nsrun.Config{Project: p, After: nsrun.Discard, Shared: []nsrun.Folder{{Path: filepath.Join(dir, "out"), Mode: nsrun.Direct}}}, "1\n"},
	} {
		if got := printed(t, runner(t, tc.c), "touch /tmp/f; chown 1 /tmp/f 2>/dev/null; echo $?"); got != tc.want {
			t.Errorf("%+v: %q", tc.c, got)
		}
	}
}

// TestOwnersRenames: what nsrun does in the kernel's place for renames and links, it does with the rights of the
// process that makes the call: of root over files of all owners, and of other users.
func TestOwnersRenames(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint(own), func(t *testing.T) {
			dir := place(t, "theirs/d/e/f: f\n", "theirs/g: g\n", "theirs/closed/", "mine/d/f: m\n", "mixed/d/f: x\n", "shared/d/f: s\n", "link/f: l\n", "link/out/")
			needOwnIDs(t, dir)
			livesIn(t, dir, "/srv")
			p := filepath.Join(dir, "p")
			give := func(uid, gid int, mode os.FileMode, names ...string) {
				t.Helper()
				for _, name := range names {
					name = filepath.Join(p, name)
					if err := errors.Join(os.Chown(name, uid, gid), os.Chmod(name, mode)); err != nil {
						t.Fatal(err)
					}
				}
			}
			give(1234, 1235, 0o700, "theirs", "theirs/d", "theirs/d/e", "theirs/closed")
			give(1234, 1235, 0o600, "theirs/g", "theirs/d/e/f", "mixed/d/f", "link/f")
			give(0, 1235, 0o2775, "shared", "shared/d")
			give(1234, 1235, 0o755, "link")
			run := func(who, from, to string) string {
				return who + "/usr/bin/python3 -c 'import os, sys\ntry: os.rename(sys.argv[1], sys.argv[2])\nexcept OSError as e: print(e.strerror)' " + from + " " + to + "; "
			}
			const as = "setpriv --reuid 1234 --regid 1235 --clear-groups "
			r := runner(t, nsrun.Config{Project: p, OwnIDs: own})
			for _, tc := range []struct{ name, script, want string }{
				{"root, a directory of others", run("", "theirs/d", "theirs/x") + "stat -c '%u:%g %a' theirs/x theirs/x/e/f", "1234:1235 700\n1234:1235 600\n"},
				{"root, by the whole path", run("", "$PWD/theirs/x", "$PWD/theirs/y") + "stat -c '%u:%g %a' theirs/y", "1234:1235 700\n"},
				{"root, from a directory of others", "cd theirs/closed; " + run("", "../y", "../z") + "cat ../z/e/f", "f\n"},
				{"root, a file of others in a directory", run("", "mixed/d", "mixed/x") + "stat -c %u:%g mixed/x mixed/x/f", "0:0\n1234:1235\n"},
				{"root, a link", "ln link/f link/out/f; [ link/f -ef link/out/f ] && stat -c %h link/f; tar -cf /tmp/t.tar link && echo archived", "2\narchived\n"},
				{"the owner", run(as, "theirs/z", "theirs/d") + as + "stat -c %u:%g theirs/d theirs/d/e", "1234:1235\n1234:1235\n"},
				{"a member of the group", run("setpriv --reuid 77 --regid 1235 --clear-groups ", "shared/d/f", "shared/d/g") + run("setpriv --reuid 77 --regid 78 --groups 1235 ", "shared/d/g", "shared/d/h") + "ls shared/d", "h\n"},
				{"somebody else", run("setpriv --reuid 77 --regid 77 --clear-groups ", "mine/d", "mine/x") + "ls mine", "Permission denied\nd\n"},
				{"root, in a directory of others", "chown 1234 mine; " + run("", "mine/d", "mine/x") + "ls mine", "x\n"},
			} {
				if got := printed(t, r, tc.script); got != tc.want {
					t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
				}
			}
		})
	}
}

// TestOwnersOfHome: a command that gives the home directory away does not take it from the project's next commands,
// which may have no privileges.
func TestOwnersOfHome(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer}
	gives := runner(t, c)
	if got := printed(t, gives, "echo x >~/f && chown 1234:1234 ~ && chmod 700 ~ && stat -c %u ~"); got != "1234\n" {
		t.Fatal(got)
	}
	if err := gives.Close(); err != nil {
		t.Fatal(err)
	}
	c.Mode, c.After = nsrun.Direct, nsrun.Keep
	if got := printed(t, runner(t, c), "cat ~/f; echo y >~/g; cat ~/g; stat -c %u:%g ~"); got != "x\ny\n0:0\n" {
		t.Error(got)
	}
}
