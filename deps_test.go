//go:build linux

package nsrun_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

const module = "github.com/nsrun/nsrun"

// mayImport says which packages of this module each one may import, tests not
// counted. Lower ones stand first; docs/packages.md says what each is for.
var mayImport = map[string][]string{
	"internal/prog":        {},
	"internal/secureexec":  {},
	"internal/sys":         {},
	"internal/deep":        {"internal/sys"},
	"internal/owndir":      {"internal/secureexec", "internal/sys"},
	"internal/homelayer":   {"internal/deep", "internal/owndir", "internal/sys"},
	"internal/rlimit":      {},
	"internal/stuck":       {},
	"internal/githash":     {},
	"internal/textdiff":    {"internal/githash"},
	"internal/gitindex":    {"internal/githash"},
	"internal/screen":      {"internal/sys"},
	"internal/escape":      {},
	"internal/harmless":    {},
	"internal/plainjson":   {},
	"internal/idmap":       {"internal/paths", "internal/sandbox", "internal/sys", "nsexec"},
	"internal/paths":       {},
	"internal/homedir":     {},
	"internal/pathrule":    {},
	"internal/ask":         {"internal/sys"},
	"internal/service":     {},
	"credential":           {"internal/escape"},
	"credential/gateway":   {"credential"},
	"internal/clients":     {},
	"internal/sshagent":    {"internal/clients", "internal/escape", "internal/githash"},
	"internal/gpgagent":    {"internal/clients"},
	"internal/bwrap":       {},
	"internal/manual":      {"internal/bwrap"},
	"internal/mcpargs":     {"credential", "internal/config", "internal/escape", "netpolicy"},
	"internal/jsonform":    {"overlay"},
	"internal/near":        {},
	"change":               {},
	"internal/config":      {"credential", "internal/service", "internal/pathrule", "internal/limits", "internal/near", "netpolicy"},
	"internal/configfile":  {"internal/config", "internal/escape", "internal/githash", "internal/host", "internal/links", "internal/owndir", "internal/paths", "internal/sys", "overlay"},
	"internal/reexec":      {"internal/prog"},
	"mounts":               {"internal/escape"},
	"internal/cgroups":     {"internal/sys", "mounts"},
	"features":             {"internal/cgroups", "internal/prog", "internal/reexec", "internal/sys"},
	"internal/mountprog":   {"internal/prog", "mounts"},
	"fanotify":             {"internal/escape", "internal/sys"},
	"netpolicy":            {"internal/escape", "internal/sys"},
	"internal/limits":      {"internal/escape"},
	"internal/userscope":   {"internal/cgroups", "internal/reexec", "internal/sys"},
	"internal/limiter":     {"features", "internal/cgroups", "internal/limits", "internal/seccomp", "internal/sys", "internal/userscope", "mounts"},
	"netpolicy/cgroup":     {"internal/cgroups", "internal/seccomp", "internal/sys", "features", "netpolicy"},
	"internal/runslater":   {"internal/gitindex", "internal/paths"},
	"overlay":              {"change", "internal/escape", "internal/homedir", "internal/owndir", "internal/pathrule", "internal/paths", "internal/runslater", "internal/gitindex", "internal/sys", "internal/textdiff", "mounts", "overlay/internal/store", "overlay/internal/tree", "overlay/internal/tx"},
	"internal/links":       {"internal/escape", "internal/paths", "internal/sys", "overlay"},
	"internal/confine":     {"mounts"},
	"internal/plan":        {"internal/confine", "internal/escape", "internal/pathrule", "internal/paths", "mounts"},
	"internal/notify":      {},
	"internal/seccomp":     {},
	"internal/sandbox":     {"internal/confine", "internal/notify", "internal/prog", "internal/sys"},
	"internal/attempts":    {"internal/escape", "internal/notify", "internal/sandbox", "internal/seccomp", "internal/sys"},
	"internal/wall":        {"internal/notify", "internal/sandbox", "internal/seccomp", "internal/sys", "mounts"},
	"nsexec":               {"internal/confine", "internal/escape", "internal/sandbox", "internal/mountprog", "internal/prog", "internal/reexec", "internal/secureexec", "internal/rlimit", "internal/seccomp", "internal/sys", "features", "mounts"},
	"netpolicy/broker":     {"internal/clients", "internal/notify", "internal/sandbox", "netpolicy", "internal/seccomp", "internal/sys", "features", "nsexec"},
	"internal/host":        {"features", "internal/confine", "internal/deep", "internal/escape", "internal/githash", "internal/gitindex", "internal/harmless", "internal/homedir", "internal/links", "internal/owndir", "internal/pathrule", "internal/paths", "internal/plan", "internal/runslater", "internal/sys", "mounts", "netpolicy", "overlay", "project"},
	"internal/dropin":      {"internal/bwrap", "internal/sandbox", "mounts", "nsexec"},
	"internal/prerun":      {"internal/bwrap", "internal/dropin", "internal/prog", "internal/reexec", "internal/sandbox", "internal/secureexec", "mounts", "nsexec"},
	"project":              {"change", "internal/escape", "internal/homedir", "internal/owndir", "internal/paths", "internal/plainjson", "internal/sys"},
	"internal/renames":     {"internal/notify", "internal/sandbox", "internal/seccomp", "internal/sys", "mounts"},
	"":                     {"credential", "internal/gpgagent", "internal/service", "internal/sshagent", "internal/ask", "internal/attempts", "internal/cgroups", "internal/confine", "internal/escape", "internal/homedir", "internal/homelayer", "internal/host", "internal/idmap", "internal/limiter", "internal/limits", "internal/pathrule", "internal/paths", "internal/plan", "internal/renames", "internal/sandbox", "internal/secureexec", "internal/sys", "internal/wall", "fanotify", "features", "mounts", "netpolicy", "netpolicy/broker", "netpolicy/cgroup", "nsexec", "overlay", "project"},
	"cmd/nsrun":            {"*"},
	"cmd/nsrun-mcp":        {"", "credential", "credential/gateway", "internal/config", "internal/configfile", "internal/escape", "internal/host", "internal/jsonform", "internal/links", "internal/mcpargs", "internal/pathrule", "internal/secureexec", "internal/service", "internal/stuck", "netpolicy", "nsexec", "overlay", "project"},
	"bench":                {"*"},
	"bench/against":        {},
	"bench/compare":        {"mounts", "nsexec"},
	"bench/internal/turns": {"mounts"},
	"bench/native":         {"bench/internal/turns", "internal/plan"},
	"bench/sessions":       {"bench/internal/turns", "overlay"},
	"bench/runner":         {"", "project"},
	"bench/watch":          {"", "fanotify", "internal/storm"},
	"bench/network":        {"", "netpolicy"},
	"examples":             {},
	"docs":                 {},
	"examples/agent":       {""},
	"examples/embed":       {""},
	"examples/stream":      {""},
	"examples/review":      {"", "overlay"},
	"examples/network":     {"", "netpolicy"},
	"examples/watch":       {"", "fanotify"},
	"examples/bwrap":       {"mounts", "nsexec"},
	// Only for tests.
	"internal/storm":      {},
	"internal/testenv":    {},
	"internal/latercases": {},
	"internal/netcases":   {},
	"internal/rulecases":  {},
	"internal/nettest":    {"internal/netcases", "internal/sys", "internal/testenv", "netpolicy"},
	// Make the image of internal/reexec.
	"internal/reexec/gen":       {"internal/reexec/gen/build"},
	"internal/reexec/gen/build": {},
	"internal/reexec/image":     {"internal/reexec"},
	// Makes files of netpolicy/cgroup.
	"netpolicy/cgroup/gen":  {},
	"test/clients/recorder": {},
	"test/losses":           {},
	"test/tools":            {},
	// For other systems, see everywhere.
	"internal/linuxonly":     {},
	"internal/linuxonly/gen": {},
	"internal/differ":        {},
	"internal/differ/probe":  {},
	"internal/strike":        {},
	"internal/testsum":       {},

	// The parts of the nsrun command, and the programs that it executes.
	"cmd/nsrun-credential":         {"credential", "credential/gateway", "internal/secureexec"},
	"cmd/nsrun/internal/advice":    {"", "features", "internal/escape", "internal/owndir", "mounts", "nsexec", "overlay", "project"},
	"cmd/nsrun/internal/console":   {"cmd/nsrun/internal/advice", "internal/ask", "internal/escape", "internal/stuck", "internal/sys", "nsexec", "overlay"},
	"cmd/nsrun/internal/usage":     {"cmd/nsrun/internal/advice", "cmd/nsrun/internal/console", "internal/near"},
	"cmd/nsrun/internal/record":    {"", "cmd/nsrun/internal/console", "features", "internal/configfile", "internal/homelayer", "internal/host", "overlay", "project"},
	"cmd/nsrun/internal/diff":      {"cmd/nsrun/internal/console", "cmd/nsrun/internal/usage", "internal/escape", "internal/jsonform", "internal/textdiff", "overlay"},
	"cmd/nsrun/internal/bwrapmode": {"cmd/nsrun/internal/advice", "cmd/nsrun/internal/console", "features", "internal/bwrap", "internal/dropin", "internal/host", "internal/prerun", "internal/sandbox", "internal/secureexec", "mounts", "nsexec"},
	"cmd/nsrun/internal/review":    {"cmd/nsrun/internal/advice", "cmd/nsrun/internal/console", "cmd/nsrun/internal/diff", "cmd/nsrun/internal/record", "internal/screen", "overlay"},

	// Of overlay.
	"overlay/internal/tree":  {"internal/deep", "internal/sys"},
	"overlay/internal/store": {"internal/owndir", "internal/pathrule", "internal/plainjson", "internal/prog", "internal/reexec", "internal/sys", "features", "overlay/internal/tree"},
	"overlay/internal/tx":    {"internal/gitindex", "internal/paths", "internal/sys", "overlay/internal/store", "overlay/internal/tree"},
}

// everywhere is what every package may import: it imports nothing.
const everywhere = "internal/linuxonly"

// thirdParty is what packages import of other modules. A new one needs a reason in
// RATIONALE.md.
var thirdParty = map[string][]string{
	"internal/testenv":      {"golang.org/x/sys/unix"},
	"internal/sys":          {"golang.org/x/sys/unix"},
	"internal/prerun":       {"golang.org/x/sys/unix"}, // numbers of calls only
	"internal/deep":         {"golang.org/x/sys/unix"},
	"internal/owndir":       {"golang.org/x/sys/unix"},
	"internal/screen":       {"golang.org/x/sys/unix"},
	"internal/ask":          {"golang.org/x/sys/unix"},
	"internal/links":        {"golang.org/x/sys/unix"},
	"internal/homelayer":    {"golang.org/x/sys/unix"},
	"internal/idmap":        {"golang.org/x/sys/unix"},
	"internal/host":         {"golang.org/x/sys/unix"},
	"internal/config":       {"github.com/pelletier/go-toml/v2/unstable"},
	"internal/configfile":   {"golang.org/x/sys/unix"},
	"":                      {"golang.org/x/sys/unix"},
	"features":              {"golang.org/x/sys/unix"},
	"internal/cgroups":      {"golang.org/x/sys/unix"},
	"internal/limiter":      {"golang.org/x/sys/unix"},
	"internal/textdiff":     {"github.com/aymanbagabas/go-udiff/lcs"},
	"fanotify":              {"github.com/fsnotify/fsnotify", "golang.org/x/sys/unix"},
	"overlay":               {"github.com/bmatcuk/doublestar/v4", "golang.org/x/sys/unix"},
	"netpolicy/cgroup":      {"golang.org/x/sys/unix"},
	"netpolicy/cgroup/gen":  {"github.com/cilium/ebpf"},
	"netpolicy":             {"golang.org/x/net/dns/dnsmessage", "golang.org/x/net/idna"},
	"nsexec":                {"golang.org/x/sys/unix"},
	"internal/sandbox":      {"golang.org/x/sys/unix"},
	"internal/notify":       {"golang.org/x/sys/unix"},
	"internal/seccomp":      {"golang.org/x/sys/unix"},
	"internal/attempts":     {"golang.org/x/sys/unix"},
	"internal/renames":      {"golang.org/x/sys/unix"},
	"internal/stuck":        {"golang.org/x/sys/unix"},
	"internal/wall":         {"golang.org/x/sys/unix"},
	"netpolicy/broker":      {"golang.org/x/sys/unix"},
	"project":               {"go.etcd.io/bbolt", "go.etcd.io/bbolt/errors", "golang.org/x/sys/unix"},
	"cmd/nsrun":             {"golang.org/x/sys/unix"},
	"cmd/nsrun-credential":  {"golang.org/x/sys/unix"},
	"internal/userscope":    {"github.com/godbus/dbus/v5"},
	"cmd/nsrun-mcp":         {"github.com/modelcontextprotocol/go-sdk/jsonrpc", "github.com/modelcontextprotocol/go-sdk/mcp", "golang.org/x/sys/unix"},
	"bench/internal/turns":  {"golang.org/x/sys/unix"},
	"bench/watch":           {"golang.org/x/sys/unix"},
	"bench/network":         {"golang.org/x/sys/unix"},
	"internal/storm":        {"golang.org/x/sys/unix"},
	"internal/nettest":      {"github.com/miekg/dns", "golang.org/x/sys/unix"},
	"internal/differ/probe": {"golang.org/x/sys/unix"},
	"internal/strike":       {"golang.org/x/sys/unix"},

	"cmd/nsrun/internal/advice":    {"golang.org/x/sys/unix"},
	"cmd/nsrun/internal/console":   {"golang.org/x/sys/unix"},
	"cmd/nsrun/internal/diff":      {"golang.org/x/sys/unix"},
	"cmd/nsrun/internal/bwrapmode": {"github.com/vishvananda/netns", "golang.org/x/sys/unix"},
	"cmd/nsrun/internal/review":    {"golang.org/x/sys/unix"},

	// Of overlay.
	"overlay/internal/tree":  {"golang.org/x/sys/unix"},
	"overlay/internal/store": {"golang.org/x/sys/unix"},
	"overlay/internal/tx":    {"golang.org/x/sys/unix"},
}

// thirdPartyTests is what tests import beyond that.
var thirdPartyTests = map[string][]string{
	"nsexec":            {"github.com/syndtr/gocapability/capability"},
	"cmd/nsrun":         {"github.com/rogpeppe/go-internal/testscript"},
	"cmd/nsrun-mcp":     {"github.com/modelcontextprotocol/go-sdk/jsonrpc", "github.com/modelcontextprotocol/go-sdk/mcp"},
	"project":           {"go.etcd.io/bbolt"},
	"fanotify":          {"github.com/fsnotify/fsnotify"},
	"":                  {"github.com/miekg/dns", "golang.org/x/net/dns/dnsmessage"},
	"netpolicy":         {"github.com/miekg/dns", "golang.org/x/net/dns/dnsmessage"},
	"netpolicy/cgroup":  {"github.com/miekg/dns"},
	"internal/wall":     {"golang.org/x/net/bpf"},
	"internal/attempts": {"golang.org/x/net/bpf"},
	"internal/prerun":   {"golang.org/x/arch/x86/x86asm"},
}

var onlyIn = map[string][]string{
	"github.com/cilium/ebpf":                 {"netpolicy/cgroup/gen"},
	"github.com/fsnotify/fsnotify":           {"fanotify"},
	"github.com/godbus/dbus":                 {"internal/userscope"},
	"github.com/modelcontextprotocol/go-sdk": {"cmd/nsrun-mcp"},
	"go.etcd.io/bbolt":                       {"project"},
	"crypto":                                 {"netpolicy", "internal/nettest", "cmd/nsrun-mcp", "credential/gateway"}, // its init functions, and 32 MiB of memory, would be every start's
	"log":                                    {"credential/gateway"},                                                   // net/http has it silent there
	"log/slog":                               {},
}

// forTests are packages that no library or command is made of.
var forTests = []string{"internal/testenv", "internal/latercases", "internal/netcases", "internal/nettest"}

// imports of a package: what its files import, and which of that only its tests do.
type imports struct{ code, tests map[string]bool }

// readImports reads all Go files: `go list` would tell of one architecture only,
// and the test's result would be cached.
func readImports(t *testing.T) map[string]imports {
	t.Helper()
	found := make(map[string]imports)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), ".")
		im, ok := found[pkg]
		if !ok {
			im = imports{map[string]bool{}, map[string]bool{}}
			found[pkg] = im
		}
		for _, spec := range f.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			if strings.HasSuffix(name, "_test.go") {
				im.tests[p] = true
			} else {
				im.code[p] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// own is the path of p in this module.
func own(p string) (pkg string, ok bool) {
	if p == module {
		return "", true
	}
	return strings.CutPrefix(p, module+"/")
}

func TestImports(t *testing.T) {
	testenv.NeedCheckout(t)
	found := readImports(t)
	if len(found) < 10 {
		t.Fatalf("found only %d packages", len(found))
	}
	for pkg, im := range found {
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %q has no line in mayImport", pkg)
			continue
		}
		for _, p := range allowed {
			if p != "*" && !im.code[strings.TrimSuffix(module+"/"+p, "/")] {
				t.Errorf("mayImport lets %q import %q, but it does not", pkg, p)
			}
		}
		for p := range im.code {
			if o, ok := own(p); ok {
				if !slices.Contains(allowed, o) && !slices.Contains(allowed, "*") && o != everywhere {
					t.Errorf("%q must not import %s", pkg, p)
				}
				if strings.HasPrefix(o, "cmd/") && !strings.HasPrefix(pkg, "cmd/") || slices.Contains(forTests, o) && !slices.Contains(forTests, pkg) {
					t.Errorf("%q must not import %s: only programs or tests may", pkg, p)
				}
			}
			for prefix, places := range onlyIn {
				if (p == prefix || strings.HasPrefix(p, prefix+"/")) && !slices.Contains(places, pkg) {
					t.Errorf("%q must not import %s", pkg, p)
				}
			}
		}
	}
}

// pure are packages without input and output, which decide alone: tests need no kernel for them.
var pure = []string{"internal/limits", "internal/plan", "internal/paths", "internal/escape"}

// doesIO are packages that do input and output: those of the system, and ours that use it. No pure package imports one
// of them.
var doesIO = []string{"os", "os/exec", "os/signal", "os/user", "net", "syscall", "path/filepath", "golang.org/x/sys/unix", "time",
	module + "/internal/sys", module + "/internal/host", module + "/internal/links", module + "/overlay", module + "/nsexec", module + "/features"}

func TestPure(t *testing.T) {
	testenv.NeedCheckout(t)
	found := readImports(t)
	for _, pkg := range pure {
		im, ok := found[pkg]
		if !ok {
			t.Errorf("there is no package %q", pkg)
		}
		for _, p := range doesIO {
			if im.code[p] {
				t.Errorf("%q imports %s, which does input or output, but must be pure", pkg, p)
			}
		}
	}
}

// TestNoCycles checks the table itself: the order is one.
func TestNoCycles(t *testing.T) {
	var visit func(pkg string, above []string)
	visit = func(pkg string, above []string) {
		if slices.Contains(above, pkg) {
			t.Fatalf("mayImport has a cycle: %q", append(above, pkg))
		}
		for _, p := range mayImport[pkg] {
			visit(p, append(slices.Clip(above), pkg))
		}
	}
	for pkg := range mayImport {
		visit(pkg, nil)
	}
}

// isThirdParty: the first element of the path is the name of a host.
func isThirdParty(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	_, ours := own(p)
	return strings.Contains(first, ".") && !ours
}

func TestThirdParty(t *testing.T) {
	testenv.NeedCheckout(t)
	check := func(pkg, what string, got map[string]bool, want []string, not map[string]bool) {
		var list []string
		for _, p := range slices.Sorted(maps.Keys(got)) {
			if isThirdParty(p) && !not[p] {
				list = append(list, p)
			}
		}
		for _, p := range list {
			if !slices.Contains(want, p) {
				t.Errorf("%s of %q: %s is not in the list", what, pkg, p)
			}
		}
		for _, p := range want {
			if !slices.Contains(list, p) {
				t.Errorf("%s of %q: %s is in the list, but nothing imports it", what, pkg, p)
			}
		}
	}
	allTests := map[string]bool{"golang.org/x/sys/unix": true} // any test may
	for pkg, im := range readImports(t) {
		check(pkg, "code", im.code, thirdParty[pkg], nil)
		want := slices.DeleteFunc(slices.Clone(thirdPartyTests[pkg]), func(p string) bool { return allTests[p] })
		check(pkg, "tests", im.tests, want, allTests)
	}
}

// TestRationale: every module in go.mod has its line.
func TestRationale(t *testing.T) {
	testenv.NeedCheckout(t)
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	why, err := os.ReadFile("RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) < 2 || !strings.Contains(f[0], ".") || !strings.HasPrefix(f[1], "v") {
			continue
		}
		if !strings.Contains(string(why), "`"+f[0]+"`") {
			t.Errorf("RATIONALE.md does not say why %s", f[0])
		}
	}
}
