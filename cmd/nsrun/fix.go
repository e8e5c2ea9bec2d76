//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
)

// What doctor --fix does to a host, at the request of its administrator: for each finding it writes files and runs
// programs. Except for ranges of ids, findings are about the host, not about the user who asks: root has to change what
// the host refuses ordinary users.

// A remedy is what is done about one finding.
type remedy struct {
	why   string
	files []remedyFile
	run   [][]string
}

// A remedyFile is written as a whole.
type remedyFile struct{ name, content string }

// profile is the profile for AppArmor. make install installs it where the kernel has that restriction.
//
//go:embed apparmor/nsrun
var profile string

const (
	profileName = "/etc/apparmor.d/nsrun"
	limitsName  = "/etc/sysctl.d/60-nsrun.conf"
	modulesName = "/etc/modules-load.d/nsrun.conf"
	slicesName  = "/etc/systemd/system/user@.service.d/nsrun.conf"
	delegate    = "cpu memory pids"
)

// remedies are what a host and this user need, in the order in which they are to be applied, except those whose reasons
// are in asked; self is this program, and read returns the content of one of the host's files, without the newline, or
// nothing.
func remedies(user, self string, read func(name string) string, asked map[string]bool) (list []remedy) {
	limits := read(limitsName)
	set := func(key, value, why string) {
		if !asked[why] {
			limits = withSetting(limits, key, value)
			list = append(list, remedy{why, []remedyFile{{limitsName, limits}}, [][]string{{"sysctl", "-w", key + "=" + value}}})
		}
	}
	if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
		set("kernel.unprivileged_userns_clone", "1", "ordinary users may not make user namespaces")
	}
	for _, kind := range [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if key := "max_" + kind + "_namespaces"; read("/proc/sys/user/"+key) == "0" {
			set("user."+key, "10000", "nobody may make "+kind+" namespaces")
		}
	}
	if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		if read(profileName) == "" {
			list = append(list, remedy{"AppArmor lets only programs with a profile make user namespaces",
				[]remedyFile{{profileName, profile}}, [][]string{{"apparmor_parser", "-r", profileName}}})
		}
		if self != "/usr/bin/nsrun" && self != "/usr/local/bin/nsrun" {
			list = append(list, remedy{"AppArmor's profile is for /usr/bin/nsrun and /usr/local/bin/nsrun, and this is " + escape.Quote(self), nil, installSelf(self, read)})
		}
	}
	if !strings.Contains(read("/proc/filesystems"), "\toverlay") {
		list = append(list, remedy{"no overlay can be mounted, and a session is a copy of the project",
			[]remedyFile{{modulesName, "overlay\n"}}, [][]string{{"modprobe", "overlay"}}})
	}
	if read("/run/systemd/system/") != "" && strings.Contains(read("/sys/fs/cgroup/cgroup.controllers"), "memory") && read(slicesName) == "" {
		list = append(list, remedy{"users have no cgroups with controllers, and --memory and --cpus are refused",
			[]remedyFile{{slicesName, "[Service]\nDelegate=" + delegate + "\n"}}, [][]string{{"systemctl", "daemon-reload"}}})
	}
	if r, needed := rangeRemedy(user, read); needed {
		list = append(list, r)
	}
	return slices.DeleteFunc(list, func(r remedy) bool { return asked[r.why] })
}

// installSelf copies this program, and those that it executes, to where the profile is for them. A profile for any
// other place could be one for a file that its user can replace by any program.
func installSelf(self string, read func(name string) string) [][]string {
	run := [][]string{{"install", "-m", "755", self, "/usr/local/bin/nsrun"}}
	for _, name := range [...]string{"nsrun-mcp", "nsrun-credential"} {
		if beside := filepath.Join(filepath.Dir(self), name); read(beside) != "" {
			run = append(run, []string{"install", "-m", "755", beside, "/usr/local/bin/" + name})
		}
	}
	return run
}

// withSetting is sysctl.conf(5) with a setting, in the place of an earlier one of that name.
func withSetting(text, key, value string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if name, _, _ := strings.Cut(line, "="); line != "" && strings.TrimSpace(name) != key {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + key + " = " + value + "\n"
}

// readHost reads a file. If the name ends with a slash, it returns the first name in that directory.
func readHost(name string) string {
	if strings.HasSuffix(name, "/") {
		if entries, err := os.ReadDir(name); err == nil {
			return fmt.Sprint(len(entries), " entries")
		}
		return ""
	}
	b, _ := os.ReadFile(name)
	return strings.TrimSuffix(string(b), "\n")
}

// print prints exactly what will be done.
func (r *remedy) print(w io.Writer) {
	fmt.Fprintf(w, "%s:\n", r.why)
	for _, f := range r.files {
		fmt.Fprintf(w, "    write %s:\n", f.name)
		for line := range strings.Lines(f.content) {
			fmt.Fprintf(w, "        %s", line)
		}
	}
	for _, argv := range r.run {
		fmt.Fprintf(w, "    run %s\n", escape.Command(argv))
	}
}

func (r *remedy) apply() error {
	for _, f := range r.files {
		if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.name, []byte(f.content), 0o644); err != nil {
			return err
		}
	}
	for _, argv := range r.run {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// fixHost shows each remedy, asks about it, and applies it. With printOnly it only shows them.
func fixHost(printOnly bool) int {
	user, asked := asker(), map[string]bool{}
	self, err := os.Executable()
	if err != nil {
		return console.Fail(err)
	}
	list := remedies(user, self, readHost, asked)
	if len(list) == 0 {
		fmt.Println("nothing to fix on this host")
		return 0
	}
	if !printOnly && os.Geteuid() != 0 {
		return console.Fail(advice.With(fmt.Errorf("doctor --fix: %d remedies need root", len(list)), "try: sudo nsrun doctor --fix, or nsrun doctor --fix --print"))
	}
	if printOnly {
		for i := range list {
			list[i].print(os.Stdout)
		}
		return 0
	}
	status := 0
	for ; len(list) > 0; list = remedies(user, self, readHost, asked) { // what was refused is in no file of the next ones
		asked[list[0].why] = true
		list[0].print(os.Stdout)
		if answer := console.Ask("do that? [y/N] "); answer != "y" && answer != "yes" {
			fmt.Println("left as it is")
			continue
		}
		if err := list[0].apply(); err != nil {
			status = console.Fail(err)
			continue
		}
		fmt.Println("done")
	}
	return status
}
