package limits

import (
	"errors"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		err  string
	}{
		{"0", 0, ""}, {"1", 1, ""}, {"4096", 4096, ""}, {"4096B", 4096, ""}, {"1K", 1 << 10, ""}, {"1k", 1 << 10, ""},
		{"512M", 512 << 20, ""}, {"512MiB", 512 << 20, ""}, {"512Mi", 512 << 20, ""}, {"1.5G", 3 << 29, ""}, {"2T", 2 << 40, ""}, {"1P", 1 << 50, ""},
		{"", 0, "not a size"}, {"M", 0, "not a size"}, {"B", 0, "not a size"}, {"-1", 0, "not a size"}, {"+1", 0, "not a size"}, {"1.5", 0, "not a size"},
		{"1e3", 0, "not a size"}, {"1e3M", 0, "not a size"}, {"0x10", 0, "not a size"}, {" 1", 0, "not a size"}, {"1 M", 0, "not a size"}, {"1..5G", 0, "not a size"},
		{"512MB", 0, "write 512M"}, {"10kB", 0, "write 10k"}, {"9223372036854775807", 1<<63 - 1, ""}, {"9223372036854775808", 0, "too large"},
		{"9999P", 0, "too large"}, {"1\x1b[mM", 0, `\x1b`}, {"1E", 0, "not a size"}, {"1m", 0, "not a size"}, {"infM", 0, "not a size"}, {"NaN", 0, "not a size"},
	} {
		got, err := ParseSize(c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %d, %v; want %d, %q", c.text, got, err, c.want, c.err)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 512 << 20: "512 MiB", 3 << 29: "1.5 GiB", 1 << 50: "1 PiB", 1 << 62: "4096 PiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTighten(t *testing.T) {
	wide := Limits{Memory: 100, Swap: -1, PIDs: 10, CPUs: 2, OpenFiles: 50, FileSize: 7, Nice: 5}
	for _, c := range []struct {
		what          string
		c, q, want    Limits
		checkedBefore bool
	}{
		{"nothing", Limits{}, Limits{}, Limits{}, false},
		{"a request without", wide, Limits{}, wide, false},
		{"a config without", Limits{}, wide, Limits{Memory: 100, PIDs: 10, CPUs: 2, OpenFiles: 50, FileSize: 7, Nice: 5}, false},
		{"a wider request", wide, Limits{Memory: 200, Swap: -1, PIDs: 11, CPUs: 3, OpenFiles: 51, FileSize: 8, Nice: 1}, wide, false},
		{"a stricter request", wide, Limits{Memory: 50, Swap: 10, PIDs: 9, CPUs: 1, OpenFiles: 5, FileSize: 6, Nice: 6, IdleIO: true},
			Limits{Memory: 50, Swap: 10, PIDs: 9, CPUs: 1, OpenFiles: 5, FileSize: 6, Nice: 6, IdleIO: true}, false},
		{"swap where there was none", Limits{Memory: 5}, Limits{Memory: 4, Swap: 9}, Limits{Memory: 4}, false},
	} {
		if got := c.c.Tighten(c.q); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, l := range []Limits{
		{Memory: -1}, {Memory: 1000}, {Swap: 1}, {Swap: -1}, {PIDs: -1}, {CPUs: -1}, {CPUs: 0.001}, {CPUs: 1 / zero}, {CPUs: zero / zero},
		{OpenFiles: -1}, {OpenFiles: 3}, {PIDs: 1 << 22}, {CPUs: 1e9}, {FileSize: -1}, {Nice: -1}, {Nice: 20},
	} {
		if l.Check() == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	for _, l := range []Limits{{}, {Memory: 1 << 20, Swap: -1}, {PIDs: 1<<22 - 2, CPUs: 1 << 16}, {PIDs: 1, CPUs: 0.01, OpenFiles: 4, FileSize: 1, Nice: 19, IdleIO: true}} {
		if err := l.Check(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

var zero float64

// TestPlan: what holds which limit on which host.
func TestPlan(t *testing.T) {
	const all = MemoryController | PIDsController | CPUController
	every := Limits{Memory: 64 << 20, PIDs: 32, CPUs: 1.5, OpenFiles: 20, FileSize: 10, Nice: 3, IdleIO: true}
	rest := " nofile:rlimit fsize:rlimit nice:priority idle-io:priority"
	for _, c := range []struct {
		what string
		l    Limits
		f    Facts
		want string // name:by …, or the limit that nothing holds
	}{
		{"nothing asked", Limits{}, Facts{V2: all}, ""},
		{"v2", every, Facts{V2: all}, "memory:cgroup v2 pids:cgroup v2 cpus:cgroup v2" + rest},
		{"v1", every, Facts{V1: all}, "memory:cgroup v1 pids:cgroup v1 cpus:cgroup v1" + rest},
		{"both", every, Facts{V2: PIDsController, V1: MemoryController | CPUController}, "memory:cgroup v1 pids:cgroup v2 cpus:cgroup v1" + rest},
		{"v2 wins", every, Facts{V1: all, V2: all}, "memory:cgroup v2 pids:cgroup v2 cpus:cgroup v2" + rest},
		{"no cgroups, processors", every, Facts{OwnProcesses: true}, "!memory"},
		{"no cgroups, pids", Limits{PIDs: 5}, Facts{OwnProcesses: true}, "pids:rlimit"},
		{"no cgroups, pids of root", Limits{PIDs: 5}, Facts{}, "!pids"},
		{"no cgroups, memory", Limits{Memory: 1 << 20, PIDs: 5}, Facts{Sees: true}, "memory:nsrun pids:nsrun"},
		{"no cgroups, memory and pids", Limits{Memory: 1 << 20, PIDs: 5}, Facts{Sees: true, OwnProcesses: true}, "memory:nsrun pids:rlimit"},
		{"no cgroups, swap", Limits{Memory: 1 << 20, Swap: 5}, Facts{Sees: true}, "!swap"},
		{"no cgroups, processors", Limits{Memory: 1 << 20, CPUs: 1}, Facts{Sees: true}, "!cpus"},
		{"processors", Limits{CPUs: 1}, Facts{V2: MemoryController | PIDsController}, "!cpus"},
		{"processors, of systemd", Limits{CPUs: 1}, Facts{V2: MemoryController | PIDsController, Managed: true}, "!cpus"},
		{"a session", Limits{Disk: 5, Inodes: 5}, Facts{Session: true}, "disk:nsrun inodes:nsrun"},
		{"files", Limits{OpenFiles: 5, FileSize: 5}, Facts{}, "nofile:rlimit fsize:rlimit"},
		{"swap", Limits{Memory: 1 << 20, Swap: 5}, Facts{V2: all}, "memory:cgroup v2 swap:cgroup v2"},
		{"swap, v1", Limits{Memory: 1 << 20, Swap: 5}, Facts{V1: all, Swap1: true}, "memory:cgroup v1 swap:cgroup v1"},
		{"swap that nobody counts", Limits{Memory: 1 << 20, Swap: 5}, Facts{V1: all}, "!swap"},
		{"a host without swap", Limits{Memory: 1 << 20, Swap: 5}, Facts{V1: all, NoSwap: true}, "memory:cgroup v1"},
		{"swap without limit", Limits{Memory: 1 << 20, Swap: -1}, Facts{V1: all}, "memory:cgroup v1"},
	} {
		list, err := Plan(c.l, c.f)
		var words []string
		for _, h := range list {
			words = append(words, string(h.Name)+":"+string(h.By))
		}
		got := strings.Join(words, " ")
		if e, ok := errors.AsType[*Error](err); ok {
			got = "!" + string(e.Name)
			remedy := "(try: nsrun as root, or in a cgroup that was delegated to this user)"
			if c.f.Managed {
				remedy = "(try: sudo nsrun doctor --fix, and log in again)"
			}
			if !strings.HasSuffix(e.Error(), remedy) || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: no remedy: %v", c.what, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	l := Limits{Memory: 100, Swap: 5, PIDs: 7, CPUs: 1.5}
	text := func(list []Setting) string {
		var b strings.Builder
		for _, s := range list {
			b.WriteString(s.File + "=" + s.Text + ";")
		}
		return b.String()
	}
	const all = MemoryController | PIDsController | CPUController
	for _, c := range []struct{ got, want string }{
		{text(SettingsV2(l, all)), "memory.max=100;memory.oom.group=1;memory.swap.max=5;pids.max=8;cpu.max=150000 100000;"},
		{text(SettingsV2(l, PIDsController)), "pids.max=8;"},
		{text(SettingsV2(Limits{Memory: 100, Swap: -1, CPUs: 0.01}, all)), "memory.max=100;memory.oom.group=1;cpu.max=1000 100000;"},
		{text(SettingsV1(l, MemoryController)), "memory.limit_in_bytes=100;memory.kmem.tcp.limit_in_bytes=100;memory.memsw.limit_in_bytes=105;"},
		{text(SettingsV1(Limits{Memory: 100}, MemoryController)), "memory.limit_in_bytes=100;memory.kmem.tcp.limit_in_bytes=100;memory.memsw.limit_in_bytes=100;memory.swappiness=0;"},
		{text(SettingsV1(l, PIDsController)), "pids.max=8;"},
		{text(SettingsV1(l, CPUController)), "cpu.cfs_period_us=100000;cpu.cfs_quota_us=150000;"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// TestOutcome: what the kernel's files say of a limit.
func TestOutcome(t *testing.T) {
	v2 := map[string]string{
		"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n", "memory.peak": "67108864\n",
		"pids.events": "max 4\n", "pids.peak": "33\n", "cpu.stat": "usage_usec 5\nnr_throttled 2\n",
	}
	v1 := map[string]string{
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory.max_usage_in_bytes": "67108864\n",
		"pids.events": "max 4\n", "pids.peak": "33\n", "cpu.stat": "nr_periods 5\nnr_throttled 2\n",
	}
	calm := map[string]string{"memory.events": "max 12\noom 0\noom_kill 0\n", "memory.oom_control": "oom_kill 0\n", "pids.events": "max 0\n"}
	of := func(m map[string]string) func(string) string { return func(name string) string { return m[name] } }
	for _, n := range []Name{Memory, PIDs, CPUs} {
		var a, b, none, no1 Outcome
		a.Name, b.Name, none.Name, no1.Name = n, n, n, n
		ReadV2(&a, of(v2))
		ReadV1(&b, of(v1))
		ReadV2(&none, of(calm))
		ReadV1(&no1, of(calm))
		if !a.Hit || a != b || a.Killed != (n == Memory) || none.Hit || no1.Hit {
			t.Errorf("%s: %+v, %+v, %+v, %+v", n, a, b, none, no1)
		}
		if n == Memory && a.Peak != 64<<20 || n == PIDs && a.Peak != 32 {
			t.Errorf("%s: peak %v", n, a.Peak)
		}
	}
	if got := HitText(Memory, 512<<20, true); got != "killed: memory limit 512 MiB reached" {
		t.Error(got)
	}
	if got := HitText(PIDs, 32, false); got != "process limit 32 processes reached" {
		t.Error(got)
	}
}
