//go:build linux

package nsrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// strayCgroups are the lines of /proc/self/cgroup whose cgroup is not below the root of the mount that shows its
// hierarchy. Programs that want to know their limits look there.
func strayCgroups(t *testing.T, cgroup, mountinfo string) (stray []string) {
	t.Helper()
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			t.Fatalf("%q is no cgroup", line)
		}
		for mount := range strings.Lines(mountinfo) {
			head, tail, _ := strings.Cut(mount, " - ")
			fs, at := strings.Fields(tail), strings.Fields(head)
			same := len(fs) == 3 && (f[1] == "" && fs[0] == "cgroup2" || f[1] != "" && fs[0] == "cgroup" && hasOption(fs[2], f[1]))
			if same && at[3] != "/" && f[2] != at[3] && !strings.HasPrefix(f[2], at[3]+"/") {
				stray = append(stray, strings.TrimSpace(line)+" in "+at[3])
			}
		}
	}
	return stray
}

// hasOption reports whether a mount's options have all of those.
func hasOption(options, all string) bool {
	for o := range strings.SplitSeq(all, ",") {
		if !strings.Contains(","+options+",", ","+o+",") {
			return false
		}
	}
	return true
}

// TestCgroupView: if a command sees the host's cgroup file systems, /proc names its cgroups as they are mounted there,
// also for a cgroup that was made for the command. With a preset that does not show them, its own cgroup is the root.
// The control is a cgroup namespace over the host's mounts.
func TestCgroupView(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	const script = "cat /proc/self/cgroup; echo --; cat /proc/self/mountinfo"
	here, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	look := func(out string) (stray []string, cgroup string) {
		cgroup, mountinfo, _ := strings.Cut(out, "--\n")
		return strayCgroups(t, cgroup, mountinfo), cgroup
	}
	outside, _ := look(string(here))
	for name, c := range map[string]nsrun.Config{
		"default": {}, "direct": {Mode: nsrun.Direct}, "limits": {Limits: nsrun.Limits{PIDs: 50}},
	} {
		c.Project = p
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: script})
		if err != nil {
			t.Logf("%s: %v", name, err) // no cgroups that this user may make
			continue
		}
		if stray, _ := look(string(res.Stdout.Bytes())); len(stray) > len(outside) {
			t.Errorf("%s: %q", name, stray)
		}
	}
	strict := runner(t, nsrun.Config{Project: p, Preset: nsrun.StrictPreset})
	if stray, cgroup := look(sh(t, strict, script)); len(stray) > 0 || strings.Contains(cgroup, ":/") && !strings.Contains(cgroup, ":/\n") {
		t.Errorf("strict: %q, %s", stray, cgroup)
	}
	if !strings.Contains(string(here), " - cgroup") {
		testenv.Skip(t, "cgroup mounts", "this host has none")
	}
	control := nsrun.Spec{Mounts: nsrun.DefaultMounts(), Env: os.Environ()}.Command("sh", "-c", script)
	out, err := control.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, own := look(string(here))
	if stray, _ := look(string(out)); len(stray) <= len(outside) && strings.Count(own, ":/\n") < strings.Count(own, "\n") {
		t.Errorf("the control shows no mismatch: %s", out)
	}
}

// javaMetrics asks Java what the machine and the process have: it looks for limits in cgroups.
const javaMetrics = `import java.lang.management.ManagementFactory;
public class Metrics {
	public static void main(String[] args) {
		var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
		System.out.println(os.getTotalMemorySize() > 0 && os.getProcessCpuTime() > 0 && os.getCpuLoad() <= 1 && os.getAvailableProcessors() > 0);
	}
}
`

// TestJavaMetrics: a real Java finds its cgroups.
func TestJavaMetrics(t *testing.T) {
	testenv.TakeTurns(t)
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("java"); err != nil {
		testenv.Skip(t, "java", err.Error())
	}
	dir := place(t, "Metrics.java: "+javaMetrics)
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
	if got := sh(t, r, "java -XX:TieredStopAtLevel=1 Metrics.java 2>&1"); !strings.HasPrefix(got, "true\n") {
		t.Errorf("%s", got)
	}
}
