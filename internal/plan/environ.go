package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

func WorkingDir(name, project, home string, playground bool) string {
	switch {
	case name == "" && project != "":
		return project
	case name == "" && !playground:
		return "/"
	case name == "", name == PlaygroundName:
		return PlaygroundPoint(home)
	}
	for _, prefix := range [...]string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') && home != "" {
			return path.Join(home, rest)
		}
	}
	if !path.IsAbs(name) {
		return path.Join("/", project, name)
	}
	return name
}

// workspaceDir is WorkingDir if the workspace is the root.
func workspaceDir(name string) string {
	for _, prefix := range [...]string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') {
			return path.Join("/", rest)
		}
	}
	return path.Join("/", name)
}

// caches are variables that name another place for a missing cache. nsrun does not create caches that the user's
// programs did not create, and programs that cannot create theirs fail. /tmp is the sandbox's own.
var caches = [...]struct {
	dir  string   // below the home directory
	set  []string // "~" stands for the home directory
	also string   // a file in which somebody may have chosen another place already; empty: none
	// fresh is a directory below dir: if commands cannot write to it, an empty cache is better.
	fresh string
}{
	{dir: ".cache", set: []string{"XDG_CACHE_HOME=/tmp/.cache"}},
	{dir: ".npm", set: []string{"npm_config_cache=/tmp/.npm"}, fresh: "_cacache"},
	// GOBIN stays: installed programs are not a cache.
	{dir: "go", set: []string{"GOPATH=/tmp/go", "GOBIN=~/go/bin"}, also: ".config/go/env"},
	{dir: ".cargo", set: []string{"CARGO_HOME=/tmp/.cargo", "CARGO_INSTALL_ROOT=~/.cargo"}},
	{dir: ".gradle", set: []string{"GRADLE_USER_HOME=/tmp/.gradle"}},
	{dir: ".bun", set: []string{"BUN_INSTALL_CACHE_DIR=/tmp/.bun"}},
}

// CachePaths are the paths below the home directory whose existence Build must know.
func CachePaths() (list []string) {
	for _, c := range caches {
		if c.dir != ".cache" {
			list = append(list, c.dir)
		}
		if c.also != "" {
			list = append(list, c.also)
		}
	}
	return list
}

// otherCaches returns, for each cache that commands cannot create in its usual place, the variables that name another.
func (b *building) otherCaches() (sets [][]string) {
	if b.Home == "" {
		return nil
	}
	for _, c := range caches {
		// A read-only cache is better than an empty one, except .cache: most programs write all of what they
		// use there.
		readable := b.Present[c.dir] && c.dir != ".cache" && !hides(b.mounts, path.Join(b.Home, c.dir)) &&
			(c.fresh == "" || writes(b.mounts, path.Join(b.Home, c.dir, c.fresh)))
		if readable || b.Present[c.also] || writes(b.mounts, path.Join(b.Home, c.dir)) {
			continue
		}
		set := slices.Clone(c.set)
		for i := range set {
			set[i] = strings.Replace(set[i], "=~/", "="+b.Home+"/", 1)
			if b.policy.Temp != "" {
				set[i] = strings.Replace(set[i], "=/tmp/", "="+b.policy.Temp+"/", 1)
			}
		}
		sets = append(sets, set)
	}
	// If .cache is elsewhere, Go would look for its own in there, although builds may write to it.
	if own := path.Join(b.Home, ".cache/go-build"); b.policy.Temp != "" && writes(b.mounts, own) {
		sets = append(sets, []string{"GOCACHE=" + own})
	}
	return sets
}

// stores are variables for programs that link packages from a store below the home directory, which is another mount in
// the sandbox. Without the variable, pnpm would make a store in the project, and later refuse to change what was
// installed from another one.
func (b *building) stores() []string {
	project := b.first()
	if b.Layer == nil || project == "" || holder(b.Table, project) != holder(b.Table, b.HomeAt) {
		return nil
	}
	data := path.Join(b.Home, ".local/share/pnpm")
	if own, _ := lookup(b.Env, "PNPM_HOME"); own != "" {
		data = own
	} else if all, _ := lookup(b.Env, "XDG_DATA_HOME"); all != "" {
		data = path.Join(all, "pnpm")
	}
	if !paths.Inside(data, b.Home) {
		return nil
	}
	return []string{"pnpm_config_store_dir=" + path.Join(data, "store")}
}

// holder returns the id of the mount that a path is in.
func holder(table []mounts.Info, path string) (id int) {
	longest := -1
	for _, m := range table {
		if len(m.Target) >= longest && paths.Inside(path, m.Target) {
			longest, id = len(m.Target), m.ID
		}
	}
	return id
}

// hides reports whether the last mount over a path hides what the host has there.
func hides(plan mounts.Plan, path string) bool {
	at, _ := (&Sandbox{Mounts: plan}).topmost(path)
	return at >= 0 && (plan[at].Kind == mounts.KindBlock || Hole(&plan[at]))
}

// writes reports whether the last mount over a path lets commands create files of the host there, or of a session.
func writes(plan mounts.Plan, path string) bool {
	at, readOnly := (&Sandbox{Mounts: plan}).topmost(path)
	return at >= 0 && !readOnly && (plan[at].Kind == mounts.KindBind || plan[at].Kind == mounts.KindOverlay)
}

// replaced reports whether the command does not get the caller's variable. Directories for temporary files are those in
// which it can make some: in the project.
func (b *building) replaced(kv string) bool {
	switch n, value, _ := strings.Cut(kv, "="); n {
	case "HOME", "PWD", "OLDPWD":
		return true
	case "TMPDIR", "TMP", "TEMP", "TEMPDIR":
		dir, project := path.Clean(value), b.first()
		return b.policy.Temp != "" || project == "" || !paths.Inside(dir, project) || !writes(b.mounts, dir)
	}
	return false
}

// offline are variables that stop retries if there is no network: npm would retry for 70 seconds, cargo 11, pip 8.
var offline = [...]string{
	"npm_config_fetch_retries=0", "PIP_RETRIES=0", "CARGO_NET_RETRY=0", "UV_HTTP_RETRIES=0", "YARN_HTTP_RETRY=0", "BUNDLE_RETRY=0",
}

// noUpdates are variables that stop programs from looking for newer versions of themselves. Otherwise a command that
// fails for another reason would seem to have needed the network.
var noUpdates = [...]string{
	"npm_config_update_notifier=false", "NO_UPDATE_NOTIFIER=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "DENO_NO_UPDATE_CHECK=1",
}

// acrossMounts lets git find the repository above a folder, which is a mount in the sandbox.
const acrossMounts = "GIT_DISCOVERY_ACROSS_FILESYSTEM=true"

// given reports whether an environment has a variable; npm accepts both cases.
func given(env []string, kv string) bool {
	_, as := lookup(env, name(kv))
	_, upper := lookup(env, strings.ToUpper(name(kv)))
	return as || upper
}

// environment returns the variables of a command that runs in dir. What the caller has set stays.
func (b *building) environment(dir string) []string {
	env := []string{}
	if b.policy.ClearEnv {
		if v, ok := lookup(b.Env, "PATH"); ok {
			env = append(env, "PATH="+v)
		}
	} else {
		env = slices.DeleteFunc(SafeEnv(b.Env), b.replaced)
		b.renameTerminal(env)
		env = append(env, "PWD="+dir)
		if b.Folders.BelowGit && !given(b.Env, acrossMounts) {
			env = append(env, acrossMounts)
		}
		var sets [][]string
		if !b.policy.Root { // else they are in the workspace
			sets = append(b.otherCaches(), b.stores())
		}
		for _, set := range sets {
			if !slices.ContainsFunc(set, func(kv string) bool { return given(b.Env, kv) }) {
				env = append(env, set...)
			}
		}
		env = append(env, b.aboutNetwork()...)
	}
	if b.policy.Temp != "" {
		env = append(env, "TMPDIR="+b.policy.Temp, "TMP="+b.policy.Temp, "TEMP="+b.policy.Temp)
	}
	switch {
	case b.policy.Root:
		env = slices.DeleteFunc(env, func(kv string) bool { return name(kv) == "PATH" })
		env = append(env, "PATH="+workspacePath, "HOME=/")
	case b.Home != "":
		env = append(env, "HOME="+b.Home)
	}
	return AddEnv(env, b.Env, b.policy.Env)
}

// aboutNetwork are the variables for programs without the host's network.
func (b *building) aboutNetwork() []string {
	var list []string
	if !b.policy.HostNetwork {
		if len(b.Network) == 0 {
			list = append(list, offline[:]...)
		}
		list = append(list, noUpdates[:]...)
	}
	return slices.DeleteFunc(list, func(kv string) bool { return given(b.Env, kv) })
}

// renameTerminal sets GPG_TTY and SSH_TTY to the terminal's name in the sandbox.
func (b *building) renameTerminal(env []string) {
	if !slices.ContainsFunc(b.mounts, func(m mounts.Mount) bool { return m.Kind == mounts.KindDev && m.Source != "" }) {
		return
	}
	for i, kv := range env {
		if n, v, _ := strings.Cut(kv, "="); v == b.Terminal.Path {
			env[i] = n + "=" + Console
		}
	}
}

// AddEnv sets the variables "K=V" of list in env, and copies those "K" from another environment if they exist.
func AddEnv(env, from, list []string) []string {
	for _, kv := range list {
		n, _, assigned := strings.Cut(kv, "=")
		if !assigned {
			v, ok := lookup(from, n)
			if !ok {
				continue
			}
			kv = n + "=" + v
		}
		env = append(slices.DeleteFunc(env, func(e string) bool { return name(e) == n }), kv)
	}
	return env
}

func name(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// lookup is os.LookupEnv: the first of several values counts.
func lookup(env []string, variable string) (value string, ok bool) {
	for _, kv := range env {
		if n, v, assigned := strings.Cut(kv, "="); assigned && n == variable {
			return v, true
		}
	}
	return "", false
}
