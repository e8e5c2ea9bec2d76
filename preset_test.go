//go:build linux

package nsrun_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// TestPresetTable: every preset has a name that is read back, and a line that says what it does.
func TestPresetTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range nsrun.Presets() {
		got, err := nsrun.ParsePreset(p.String())
		if got != p || err != nil || seen[p.String()] {
			t.Errorf("%s: %d, %v", p, got, err)
		}
		seen[p.String()] = true
		if s := p.Summary(); s == "" || len(s) > 100 || strings.HasSuffix(s, ".") || strings.Contains(s, "\n") {
			t.Errorf("%s: %q", p, s)
		}
	}
	for _, name := range []string{"", "none", "Build", "npm ", "npm,go"} {
		if _, err := nsrun.ParsePreset(name); err == nil {
			t.Errorf("there is a preset %q", name)
		}
	}
	if p := nsrun.Preset(200); p.String() != "preset?" || p.Summary() != "" || p.Rules() != nil {
		t.Error("an unknown preset has rules")
	}
	_, err := nsrun.NewRunner(nsrun.Config{Presets: []nsrun.Preset{200}}).Run(t.Context(), nsrun.Request{Command: "true"})
	if e, ok := errors.AsType[*nsrun.Error](err); !ok || e.Op != "configure" {
		t.Errorf("%v", err)
	}
}

// TestNetworkPresets: the networks of presets allow one port of what they name, and nothing else; they add to each
// other and to Config.Net.
func TestNetworkPresets(t *testing.T) {
	reaches := func(list []netpolicy.Rule, host string, port uint16) bool {
		p := netpolicy.Policy{Rules: list, HostAddrs: []netip.Addr{}}
		return p.Allows(netpolicy.TCP, netip.MustParseAddrPort("9.9.9.9:"+strconv.Itoa(int(port))), host)
	}
	for _, c := range []struct {
		preset nsrun.Preset
		host   string
		port   uint16
	}{
		{nsrun.NPMPreset, "registry.npmjs.org", 443}, {nsrun.PyPIPreset, "pypi.org", 443}, {nsrun.PyPIPreset, "files.pythonhosted.org", 443},
		{nsrun.GoPreset, "proxy.golang.org", 443}, {nsrun.GoPreset, "sum.golang.org", 443}, {nsrun.CargoPreset, "index.crates.io", 443},
		{nsrun.CargoPreset, "static.crates.io", 443}, {nsrun.DebianPreset, "deb.debian.org", 80}, {nsrun.GitHubPreset, "github.com", 443},
		{nsrun.GitHubPreset, "github.com", 22},
	} {
		list := c.preset.Rules()
		if !reaches(list, c.host, c.port) {
			t.Errorf("%s: %s:%d cannot be reached", c.preset, c.host, c.port)
		}
		if reaches(list, c.host, 8080) || reaches(list, "evil."+c.host, 443) || reaches(list, "example.org", 443) {
			t.Errorf("%s allows more than it names: %v", c.preset, list)
		}
	}
	rule := netpolicy.MustParse("example.org:443").Rules
	r := runner(t, nsrun.Config{Preset: nsrun.GoPreset, Presets: []nsrun.Preset{nsrun.CargoPreset, nsrun.GoPreset}, Net: netpolicy.Policy{Rules: rule}})
	v, err := r.View(t.Context(), nsrun.Request{Command: "true"})
	if err != nil {
		t.Fatal(err)
	}
	want := "example.org:443 tcp:proxy.golang.org:443 tcp:sum.golang.org:443 tcp:crates.io:443 tcp:index.crates.io:443 tcp:static.crates.io:443"
	if got := strings.Join(v.Rules, " "); got != want || v.Network != "rules" || strings.Join(v.Presets, " ") != "go cargo" {
		t.Errorf("%v, %s, %v", v.Presets, v.Network, got)
	}
}

// TestDefaultMounts is the table of what commands have with the preset strict.
func TestDefaultMounts(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "file: 1")
	p := filepath.Join(dir, "p")
	testenv.Tree(t, dir, "beside/", "beside/file: 1")
	t.Setenv("BESIDE", filepath.Join(dir, "beside"))
	r := runner(t, nsrun.Config{Project: p, Preset: nsrun.StrictPreset})
	for name, command := range map[string]string{
		"the working directory is read-write": `test "$(cat file)" = 1 && echo 2 >file && echo 3 >new && test "$(pwd)" = "` + p + `"`,
		"usr is read-only":                    `test -x /usr/bin/env && ! touch /usr/x 2>/dev/null && ! touch /usr/bin/x 2>/dev/null`,
		"lib is read-only":                    `test -d /lib && ! touch /lib/x 2>/dev/null && { ! test -e /lib64 || ! touch /lib64/x 2>/dev/null; }`,
		"bin and sbin are read-only":          `test -x /bin/sh && test -d /sbin && ! touch /bin/x /sbin/x 2>/dev/null`,
		"passwd and group can be read": `id -un >/dev/null && test -s /etc/passwd && test -s /etc/group && test "$(ls /etc)" = "group
passwd"`,
		"tmp is read-write, and its own":        `echo x >/tmp/f && test "$(cat /tmp/f)" = x`,
		"null, zero, urandom":                   `echo x >/dev/null && test "$(head -c 3 /dev/zero | wc -c)" = 3 && test "$(head -c 3 /dev/urandom | wc -c)" = 3`,
		"no other devices":                      `test "$(find /dev ! -type d ! -type l | sort | tr '\n' ' ')" = "/dev/null /dev/urandom /dev/zero "`,
		"there is no resolv.conf":               `! test -e /etc/resolv.conf`,
		"nothing else is there":                 `! test -e "$BESIDE" && ! test -e /root && ! test -e /var && ! test -e /opt && ! test -e /sys && ! test -e /run && ! test -e /etc/hostname`,
		"nothing else can be made":              `! mkdir /x /etc/x /home/x 2>/dev/null`,
		"all of it can be removed without harm": `rm -rf --no-preserve-root /usr/bin /bin /etc /dev "$PWD" 2>/dev/null; test -x /usr/bin/env && test -s /etc/passwd`,
	} {
		t.Run(name, func(t *testing.T) {
			r := runner(t, nsrun.Config{Project: p, Preset: nsrun.StrictPreset, After: nsrun.Discard})
			if res, err := r.Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
				t.Errorf("%s, %v", res, err)
			}
		})
	}
	if got := sh(t, r, "echo 2 >file; cat file"); got != "2\n" || content(p, "file") != "1" {
		t.Errorf("%q, and on the host %q", got, content(p, "file"))
	}
	// With a network there is resolv.conf.
	needEnforcer(t, nsrun.AutoEnforcer)
	r = runner(t, nsrun.Config{Project: p, Preset: nsrun.StrictPreset, Presets: []nsrun.Preset{nsrun.NPMPreset}})
	if got := sh(t, r, "ls /etc; grep -c nameserver /etc/resolv.conf"); got != "group\npasswd\nresolv.conf\n1\n" {
		t.Errorf("%q", got)
	}
	need(t, features.LandlockScopes)
	yes := &asked{answer: nsrun.Allow}
	r = runner(t, nsrun.Config{Project: p, Preset: nsrun.StrictPreset, Approver: yes})
	want := "same\n"
	if _, err := os.Stat("/etc/resolv.conf"); err != nil {
		want = "none\n"
	}
	res, err := r.Run(t.Context(), nsrun.Request{Command: "test -e /etc/resolv.conf && echo same || echo none", Network: true})
	if err != nil || res.String() != want {
		t.Errorf("%s, %v, want %s", res, err, want)
	}
}

// TestExtraPaths: paths that are named can be written to or read, beside what the preset strict has.
func TestExtraPaths(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "file: 1")
	testenv.Tree(t, dir, "cargo/", "tools/", "tools/tool: 1", "tools/key: 1")
	at := func(name string) string { return filepath.Join(dir, name) }
	r := runner(t, nsrun.Config{Project: at("p"), Presets: []nsrun.Preset{nsrun.StrictPreset}, Rules: []nsrun.Rule{
		{Mode: nsrun.Direct, Pattern: at("cargo")}, {Mode: nsrun.ReadOnly, Pattern: at("tools")}, {Mode: nsrun.Blocked, Pattern: at("tools/key")},
	}})
	got := sh(t, r, "cd ..; echo new >cargo/f; cat tools/tool; echo; cat tools/key 2>/dev/null || echo blocked; touch tools/x 2>/dev/null || echo read-only; ls")
	if got != "1\nblocked\nread-only\ncargo\np\ntools\n" || content(dir, "cargo/f") != "new\n" {
		t.Errorf("%q", got)
	}
}

// TestNestedRules: a hidden directory can contain a shown one, and the reverse. The later rule wins.
func TestNestedRules(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "d/", "d/g: out", "d/x/", "d/x/f: in")
	d, x := filepath.Join(dir, "d"), filepath.Join(dir, "d/x")
	const read = "cat ../d/g 2>/dev/null || echo -n no; cat ../d/x/f 2>/dev/null || echo -n no"
	for want, rules := range map[string][]nsrun.Rule{
		"noin":  {{Mode: nsrun.Blocked, Pattern: d}, {Mode: nsrun.ReadOnly, Pattern: x}},
		"outno": {{Mode: nsrun.ReadOnly, Pattern: d}, {Mode: nsrun.Blocked, Pattern: x}},
		"nono":  {{Mode: nsrun.ReadOnly, Pattern: x}, {Mode: nsrun.Blocked, Pattern: d}},
		"outin": {{Mode: nsrun.Blocked, Pattern: x}, {Mode: nsrun.ReadOnly, Pattern: d}},
	} {
		if got := sh(t, runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Rules: rules}), read); got != want {
			t.Errorf("%v: %q, want %q", rules, got, want)
		}
	}
}
