//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestHomeLayer: what commands write below the home directory is there for the project's next one, and nowhere else.
func TestHomeLayer(t *testing.T) {
	lodgers(t, append([]string{".profile: mine", "old/f: 1", ".cache/x: cached"}, secretFiles...), func(l *lodger) {
		before := listing(t, l.home)
		for _, flags := range [][]string{{"--discard"}, {"--direct"}} {
			l.sh("cd; echo new >>.profile; mkdir -p .npm/_cacache .config/tool .gnupg .ssh; echo 1 >.npm/_cacache/f; echo k >.ssh/known_hosts; rm -r old; echo 2 >.cache/x", flags...)
			want := "minenew\n1\nk\n2"
			l.want(l.sh("cd; cat .profile .npm/_cacache/f .ssh/known_hosts .cache/x; test ! -e old && test ! -e .ssh/id && test ! -e .netrc", flags...), want)
			if got := listing(t, l.home); got != before {
				t.Errorf("the home directory has\n%s\nnot\n%s", got, before)
			}
			// At the command's end no disk is waited for.
			l.want(l.sh("grep -c \" $HOME .* overlay .*[,=]volatile\" /proc/self/mountinfo", flags...), "1")
			// Another project has its own.
			if _, out := l.in("other", "run", "-q", flags[0], "--", "cat", l.home+"/.profile", l.home+"/.cache/x"); out != "minecached" {
				t.Error(out)
			}
			if status, out := l.in("other", "run", "-q", flags[0], "--", "ls", l.home+"/.npm", l.home+"/.local/state/nsrun"); status == 0 || strings.Count(out, "No such file") != 2 {
				t.Errorf("another project's layer can be reached: %s", out)
			}
			// No commit contains it.
			if _, out := l.in("p", "run", "-q", "--commit", "--", "cat", l.home+"/.npm/_cacache/f"); out != "1\n" && flags[0] != "--direct" {
				t.Error(out)
			}
			status, out := l.in("p", "home", "show")
			if status != 0 || !strings.Contains(out, "M ~/.profile") || !strings.Contains(out, "A ~/.npm/") || !strings.Contains(out, "D ~/old") || !strings.Contains(out, "home layer of /srv/p") {
				t.Errorf("status %d\n%s", status, out)
			}
			if _, out := l.in("p", "why", l.home+"/.profile"); !strings.Contains(out, "kept in the home layer") {
				t.Error(out)
			}
			// There are layers of two projects. For root, each project also has a layer for the home
			// directory in /etc/passwd.
			if _, out := l.in("p", "doctor", "--sessions"); !strings.Contains(out, "2 home layers, ") && !strings.Contains(out, "4 home layers, ") {
				t.Error(out)
			}
			if status, out := l.in("p", "home", "reset"); status != 0 || !strings.HasPrefix(out, "nsrun: removed the home layer of /srv/p: ") {
				t.Errorf("status %d\n%s", status, out)
			}
			l.want(l.sh("cd; cat .profile old/f .cache/x; test ! -e .npm", flags...), "mine1cached")
		}
		// Without it nothing is written.
		if status, out := l.in("p", "run", "-q", "--home", "none", "--", "touch", l.home+"/new"); status == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("status %d\n%s", status, out)
		}
		l.sh("rm ~/.cache/x; echo 3 >~/.cache/y", "--home", "none", "--direct")
		l.want(l.sh("cat ~/.cache/x; test ! -e ~/.cache/y", "--home", "none"), "cached")
	})
}

// listing is what is in a directory, but for nsrun's own.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "nsrun" || path == filepath.Join(dir, ".local"):
			if d.Name() == "nsrun" {
				return filepath.SkipDir
			}
			return nil
		case strings.HasPrefix(path, filepath.Join(dir, ".local")):
			return nil
		}
		b.WriteString(strings.TrimPrefix(path, dir))
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.WriteString(": " + string(text))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return b.String()
}

// TestHostileLayer: what a command left in the layer affects the next command only through files that it sees there.
func TestHostileLayer(t *testing.T) {
	lodgers(t, append([]string{"own/f: 1", "deep/p/f: project", ".config/nsrun/config.toml: [sandbox]\nenv = [\"FROM=user\"]\n"}, secretFiles...), func(l *lodger) {
		victim := filepath.Join(l.home, "other")
		for name, script := range map[string]string{
			"links":       "ln -s ~/other ~/playground2; rm -rf ~/.cache ~/.config ~/.m2 ~/.gradle; ln -s /etc ~/.config; ln -s ~/other ~/.cache; ln -s ~/other ~/.local; ln -s ~/.netrc ~/.m2",
			"files":       "rm -rf ~/.cache ~/.config ~/.m2; touch ~/.cache ~/.config ~/.local ~/.m2 ~/.ssh",
			"FIFOs":       "rm -rf ~/.cache ~/.config; mkfifo ~/.cache ~/.config ~/.local ~/.netrc ~/.bashrc",
			"directories": "mkdir -p ~/.netrc ~/.npmrc2 ~/.yarnrc.yml/x ~/.local/share/nsrun/playgrounds ~/.local/state/nsrun/sessions/x ~/.cache/nsrun",
			"modes":       "rm -rf ~/.cache; mkdir ~/.cache; chmod 0 ~/.cache ~/.config 2>/dev/null; chmod 0 ~ || true",
			"settings":    "mkdir -p ~/.config/nsrun; printf '[sandbox]\\nenv = [\"FROM=layer\"]\\nenabled = false\\n' >~/.config/nsrun/config.toml; echo '[core] hooksPath = /srv/other' >~/.gitconfig; rm -rf ~/.config/gh; mkdir -p ~/.config/gh",
			"deleted":     "rm -rf ~/own ~/.cache ~/.config ~/.m2 ~/.npmrc",
		} {
			l.sh("{ "+script+"; } 2>/dev/null; true", "--discard")
			// The next one starts, sees no secret, and has the user's settings, also if its layer lies on
			// what others wrote.
			stacked := name != "settings" && name != "modes"
			if stacked {
				goOn, end := l.wait("p", "echo; echo; read x")
				l.sh("{ "+script+"; } 2>/dev/null; true", "--discard")
				if got := l.sh("{ grep -rs "+hush+" ~ || true; ls -A ~/playground; cat f; } 2>&1", "--discard"); strings.Contains(got, hush) || !strings.Contains(got, "project") {
					t.Errorf("%s, stacked: %s", name, got)
				}
				goOn()
				end()
			}
			got := l.sh("{ grep -rs "+hush+" ~ || true; ls -A ~/playground; echo $FROM; touch ~/playground/x && rm ~/playground/x; cat f; } 2>&1", "--discard", "-C", l.home+"/p")
			if strings.Contains(got, hush) || !strings.Contains(got, "user\nproject") {
				t.Errorf("%s: %s", name, got)
			}
			// A project whose parents are in the home directory, and rules for paths there.
			if status, out := l.in("deep/p", "run", "-q", "--discard", "--", "cat", "f"); status != 0 || out != "project" {
				t.Errorf("%s: status %d\n%s", name, status, out)
			}
			if status, out := l.in("p", "run", "-q", "--discard", "--rw", "~/own", "--ro", "~/.netrc", "--block", "~/.config/pip", "--", "cat", l.home+"/own/f"); status != 0 || !strings.HasSuffix(out, "1") {
				t.Errorf("%s: status %d\n%s", name, status, out)
			}
			if b, err := os.ReadFile(filepath.Join(victim, "f")); string(b) != "project" || err != nil {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			if entries, err := os.ReadDir(victim); err != nil || len(entries) != 1 {
				t.Errorf("%s: %v, %v", name, entries, err)
			}
			if status, out := l.in("p", "home", "show"); status != 0 {
				t.Errorf("%s: status %d\n%s", name, status, out)
			}
			if status, out := l.in("p", "home", "reset"); status != 0 {
				t.Errorf("%s: status %d\n%s", name, status, out)
			}
		}
	})
}

// TestHomeKeep: kept files are copied as they are, through no link. Files that run later are kept only if they are
// named.
func TestHomeKeep(t *testing.T) {
	lodgers(t, []string{".config/x/old: mine", "out/", "link => out"}, func(l *lodger) {
		l.sh("cd; mkdir -p .config/tool .config/fish .local/bin bin; echo 8 >bin/prog; echo 1 >.config/tool/a; echo 2 >.config/fish/config.fish; echo 3 >.local/bin/prog; echo 4 >.config/x/old; ln -s /etc/passwd .config/tool/l; mkfifo .config/tool/p; "+
			"echo 5 >.config/tool/s; chmod u+s .config/tool/s; rm -rf link; mkdir link; echo 6 >link/f; rm -r out; chmod 700 .config/tool; echo 7 >.bashrc", "--discard")
		status, out := l.in("p", "home", "keep", "../.config/tool", l.home+"/.config/fish")
		if status == 0 || strings.Count(out, "it is not a file") < 1 || !strings.Contains(out, "held back: ~/.config/fish/config.fish (shell startup file)") {
			t.Errorf("status %d\n%s", status, out)
		}
		if status, out := l.in("p", "home", "keep", l.home+"/bin"); status == 0 || !strings.Contains(out, "held back: ~/bin/prog (program of the home directory)") {
			t.Errorf("status %d\n%s", status, out)
		}
		if b, err := os.ReadFile(l.home + "/.config/tool/a"); string(b) != "1\n" {
			t.Errorf("%q, %v", b, err)
		}
		if !strings.Contains(out, "held back: ~/.config/tool/l (symbolic link that leads out of what is kept)") {
			t.Error(out)
		}
		for _, name := range []string{".config/tool/p", ".config/tool/l", ".config/fish/config.fish", ".local/bin", "bin/prog"} {
			if _, err := os.Lstat(filepath.Join(l.home, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, c := range []struct{ path, want string }{
			{"~/link/f", "symbolic link"}, {"~/out", "deleted it"}, {"~/none", "not in the home layer"}, {"/etc/passwd", "not below the home directory"},
			{"~", "not below the home directory"}, {"~/.local", "nsrun's own"}, {"~/.local/state/nsrun/homes", "nsrun's own"}, {"~/.config/x/old", "already"}, {"~/p/../../etc", "not below"},
		} {
			if status, out := l.in("p", "home", "keep", strings.Replace(c.path, "~", l.home, 1)); status == 0 || !strings.Contains(out, c.want) {
				t.Errorf("%s: status %d\n%s", c.path, status, out)
			}
		}
		if entries, err := os.ReadDir(l.home + "/out"); err != nil || len(entries) != 0 {
			t.Errorf("%v, %v", entries, err)
		}
		// With the path of the very file, and where the link leads is printed.
		if status, out := l.in("p", "home", "keep", l.home+"/.bashrc"); status != 0 || out != "" {
			t.Errorf("status %d\n%s", status, out)
		}
		if status, out := l.in("p", "home", "keep", l.home+"/.config/tool/l"); status != 0 || out != "nsrun: kept ~/.config/tool/l, a symbolic link to /etc/passwd\n" {
			t.Errorf("status %d\n%s", status, out)
		}
		if status, out := l.in("p", "home", "keep", "--replace", l.home+"/.config/x"); status != 0 || !strings.Contains(out, "what it replaced is") {
			t.Errorf("status %d\n%s", status, out)
		}
		if status, out := l.in("p", "home", "keep", "--allow-exec", l.home+"/.config/fish"); status != 0 {
			t.Errorf("status %d\n%s", status, out)
		}
		l.want(string(must(t, l.home+"/.config/x/old"))+string(must(t, l.home+"/.bashrc"))+string(must(t, l.home+"/.config/fish/config.fish")), "4\n7\n2")
		var st unix.Stat_t
		if err := unix.Stat(l.home+"/.bashrc", &st); err != nil || int(st.Uid) != l.uid {
			t.Errorf("%d, %v", st.Uid, err)
		}
	})
}

func must(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return b
}

// TestHomeTold: a run says what was kept below the home directory, once and in one line. Caches are not worth a word.
func TestHomeTold(t *testing.T) {
	lodgers(t, []string{".profile: mine", ".cache/x: cached"}, func(l *lodger) {
		const begin = "nsrun: kept apart below the home directory: "
		for script, want := range map[string]string{
			"cd; echo 1 >>.profile; mkdir -p tool; echo 1 >tool/f; echo 1 >.cache/y":                                          begin + "~/.profile, ~/tool/ (nsrun home show)\n",
			"cd; echo 2 >.cache/x; mkdir -p .npm/_cacache .config/go/telemetry; touch .npm/_cacache/f .config/go/telemetry/f": "",
			"cd; touch $(printf %0100d 1)": begin + "~/" + strings.Repeat("0", 57) + "… (nsrun home show)\n",
			"cd; touch 1 2 3 4":            begin + "~/1, ~/2, 2 more (nsrun home show)\n",
		} {
			if _, out := l.in("p", "run", "--discard", "--", "sh", "-c", script); out != want {
				t.Errorf("%s:\n%s", script, out)
			}
			if _, out := l.in("p", "run", "--discard", "--", "sh", "-c", script); out != "" {
				t.Errorf("%s, again:\n%s", script, out)
			}
		}
		if _, out := l.in("p", "run", "-q", "--discard", "--", "sh", "-c", "touch ~/quiet"); out != "" {
			t.Error(out)
		}
	})
}

// TestNoHomeLayer: without a layer, hidden directories are empty and writable. If there can be no layer, a line says
// why.
func TestNoHomeLayer(t *testing.T) {
	lodgers(t, secretFiles, func(l *lodger) {
		for range 2 {
			l.want(l.sh("cd; ls -A .ssh .gnupg .config/gh; stat -c %a .gnupg; echo x >.gnupg/x; cat .gnupg/x", "--home", "none"), ".config/gh:\n\n.gnupg:\n\n.ssh:\n700\nx")
		}
		if _, out := l.in("p", "why", "--home", "none", l.home+"/.ssh/id"); !strings.Contains(out, "is a place of secrets") || !strings.Contains(out, "write    yes, and gone") {
			t.Error(out)
		}
		if err := os.Mkdir(l.home+"/mnt", 0o755); err != nil {
			t.Fatal(err)
		}
		mounted(l.t, "tmpfs", l.home+"/mnt", "tmpfs", 0)
		status, out := l.in("p", "run", "--", "touch", l.home+"/new")
		if status == 0 || !strings.Contains(out, "nsrun: no home layer: something is mounted in the home directory, at /srv/mnt\n") || !strings.Contains(out, "Read-only file system") {
			t.Errorf("status %d\n%s", status, out)
		}
		if status, out := l.in("p", "run", "-q", "--home", "none", "--", "true"); status != 0 || out != "" {
			t.Errorf("status %d\n%s", status, out)
		}
	})
}

// TestHomeBound: a flag and a key limit the size of the layer after a command. A project's file can only lower the
// limit.
func TestHomeBound(t *testing.T) {
	lodgers(t, nil, func(l *lodger) {
		fill := func(want bool, flags ...string) {
			l.t.Helper()
			args := append(append([]string{"run", "--discard"}, flags...), "--", "sh", "-c", "mkdir -p ~/.npm; head -c 8M /dev/zero >~/.npm/f")
			status, out := l.in("p", args...)
			if got := strings.Contains(out, "the home layer was larger than 4 MiB: the caches in ~/.npm was removed"); status != 0 || got != want {
				l.t.Errorf("%q: status %d\n%s", flags, status, out)
			}
			if status, out := l.in("p", "home", "reset"); status != 0 {
				l.t.Error(out)
			}
		}
		fill(false)
		fill(true, "--home-size", "4M")
		file := filepath.Join(l.home, "p/.nsrun.toml")
		if err := os.WriteFile(file, []byte("[sandbox]\nhome_size = \"4M\"\n"), 0o644); err != nil {
			l.t.Fatal(err)
		}
		fill(true)
		if err := os.WriteFile(file, []byte("[sandbox]\nhome_size = \"20G\"\n"), 0o644); err != nil {
			l.t.Fatal(err)
		}
		if status, out := l.in("p", "run", "--discard", "--", "true"); status == 0 && !strings.Contains(out, "home_size") {
			l.t.Errorf("an untrusted file of a project raises the limit of the layer: status %d\n%s", status, out)
		}
		if status, out := l.in("p", "run", "--home-size", "0", "--", "true"); status != 125 || !strings.Contains(out, "must not be zero") {
			l.t.Errorf("status %d\n%s", status, out)
		}
	})
}

// TestHomeAtOnce: commands of one project can run at the same time. They see what earlier commands wrote, and what each
// of them writes is kept. While one runs, the layer can be neither removed nor copied from.
func TestHomeAtOnce(t *testing.T) {
	lodgers(t, nil, func(l *lodger) {
		l.sh("echo 0 >~/first")
		in, out := l.wait("p", "cat ~/first; echo a >~/a; echo; read x; echo 1 >>~/a")
		if status, said := l.in("p", "home", "reset"); status == 0 || !strings.Contains(said, "a command uses it") {
			t.Errorf("status %d\n%s", status, said)
		}
		if status, said := l.in("p", "home", "keep", l.home+"/first"); status == 0 || !strings.Contains(said, "a command uses it") {
			t.Errorf("status %d\n%s", status, said)
		}
		l.want(l.sh("cat ~/first ~/a; mkdir -p ~/.cache/tool; echo b >~/.cache/tool/b; echo 2 >~/first"), "0\na")
		// The next one sees that, although the first one has not ended.
		l.want(l.sh("cat ~/first ~/.cache/tool/b; rm ~/.cache/tool/b; echo c >~/.cache/tool/c"), "2\nb")
		in()
		if got := out(); got != "0\n\n" {
			t.Errorf("%q", got)
		}
		l.want(l.sh("cat ~/first ~/a ~/.cache/tool/*"), "2\na\n1\nc")
		if entries, err := filepath.Glob(l.home + "/.local/state/nsrun/homes/*/runs"); err != nil || entries != nil {
			t.Errorf("%q, %v", entries, err)
		}
	})
}

// wait starts a command that prints something and reads a line. The functions let it go on, and return all that it
// printed.
func (l *lodger) wait(dir, script string) (goOn func(), end func() string) {
	l.t.Helper()
	c := l.command(dir, filepath.Join(l.bin, "nsrun"), "run", "-q", "--discard", "-c", script)
	in, err := c.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	c.Stdout = w
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	_ = w.Close()
	var all strings.Builder
	line := make([]byte, 100)
	for !strings.Contains(all.String(), "\n\n") {
		n, err := r.Read(line)
		if err != nil {
			l.t.Fatal(err, said.String())
		}
		all.Write(line[:n])
	}
	return func() { _, _ = in.Write([]byte("go\n")) }, func() string {
		for {
			n, err := r.Read(line)
			if all.Write(line[:n]); err != nil {
				break
			}
		}
		_ = r.Close()
		if err := c.Wait(); err != nil || said.Len() > 0 {
			l.t.Error(err, said.String())
		}
		return all.String()
	}
}

// TestHomeKilled: nsrun is killed again and again while its commands write, several at once. The next command can use
// the layer and finds whole files, and no process of the killed ones still writes there.
func TestHomeKilled(t *testing.T) {
	lodgers(t, nil, func(l *lodger) {
		// Each command has a name of its own: their shells have the same process id, each in its own namespace.
		const script = `n=%d; mkdir -p ~/d; i=0; while :; do i=$((i+1)); echo $n-$i >~/d/$n.tmp && mv ~/d/$n.tmp ~/d/$n; echo $i; done`
		for round := range testenv.Rounds(4, 40) {
			var list []*exec.Cmd
			for n := range 3 {
				c := l.command("p", filepath.Join(l.bin, "nsrun"), "run", "-q", "--discard", "-c", fmt.Sprintf(script, n))
				r, err := c.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				_, _ = r.Read(make([]byte, 1)) // it writes
				list = append(list, c)
			}
			for _, c := range list {
				_ = c.Process.Kill()
				_ = c.Wait()
			}
			got := l.sh("cat ~/d/* >/dev/null && ls ~/d | grep -v tmp | wc -l; cat ~/d/* | sort | uniq -d; cat ~/d/* >~/one; sleep 0.05; cat ~/d/* >~/two; cmp ~/one ~/two")
			if strings.TrimSpace(got) != "3" {
				t.Errorf("round %d: %s", round, got)
			}
			l.sh("rm -r ~/d")
		}
		if entries, err := filepath.Glob(l.home + "/.local/state/nsrun/homes/*/runs"); err != nil || entries != nil {
			t.Errorf("%q, %v", entries, err)
		}
	})
}
