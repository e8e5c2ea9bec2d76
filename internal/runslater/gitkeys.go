package runslater

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

// executingNames are names of keys, in any section, whose value is a command or its path. Other programs keep settings
// in git's configuration too, so a key that is named like a command counts.
var executingNames = []string{
	"askpass", "browser", "clean", "command", "driver", "editor", "external", "fsmonitor", "helper", "hooks", "hookspath",
	"pager", "process", "program", "providers", "receivepack", "smudge", "textconv", "tunnel", "uploadpack", "vcs",
}

var executingEnds = []string{
	"cmd", "command", "commands", "hook", "program", "prog", "askpass", "editor", "pager", "helper", "browser", "viewer", "terminal",
	"-options", "-transport", // of git-annex, for ssh and rsync, which execute what some of their options name
}

func executingKey(key string) bool {
	switch key {
	case "core.gitproxy", "core.sshcommand", "interactive.difffilter", "init.templatedir", "include.path",
		"includeif.path", "http.cookiefile", "http.sslcainfo", "http.sslcapath", "sendemail.smtpserver", "difftool.path", "mergetool.path", "man.path",
		"browser.path", "instaweb.httpd", "instaweb.modulepath", "lfs.path", "lfs.args", "lfs.standalonetransferagent",
		"svn.authorsprog", "svn-remote.authorsprog", "svn.configdir", // Subversion's settings there name programs for its tunnels
		"sendemail.smtpserveroption",      // sendmail(8) reads settings from the file that an option names
		"maintenance.repo", "scalar.repo", // git's timers run in these repositories
		"mergetool.layout", "difftool.layout", // git's shell evaluates it
		"rebase.instructionformat": // with a newline it adds lines to the list of what a rebase does
		return true
	}
	return false
}

// executingSections contain only commands. An alias can also be git's own options, such as -c.
var executingSections = []string{"alias", "pager", "tig"}

// namingSections have subsections with names that users choose.
var namingSections = []string{"branch", "remote", "submodule"}

// executes reports whether a program executes something because of this entry in the configuration at a path.
func (e *entry) executes(at string, roots []string) bool {
	section, sub, name := e.parts()
	switch {
	case e.bare: // true
		return false
	case slices.Contains(protections, section+"."+name):
		return !isTrue(e.value)
	case section == "core" && name == "sharedrepository": // git lets others write to what it makes from now on
		return !slices.Contains([]string{"", "umask", "false", "no", "off", "0", "0600", "0640", "0644"}, strings.ToLower(e.value))
	case section == "format" && name == "outputdirectory" || section == "lfs" && name == "storage" || section == "submodule" && name == "gitdir":
		return leaves(e.value)
	case section == "trace2" && strings.HasSuffix(name, "target"): // git writes there what it is told to do
		return strings.Contains(e.value, "/")
	case section == "http" && (name == "sslcerttype" || name == "sslkeytype"): // others than these come from a library
		return !slices.Contains([]string{"pem", "der", "p12"}, strings.ToLower(e.value))
	case section == "core" && name == "worktree":
		return !submodulePlace(at, e.value, roots)
	case (section == "merge" || section == "diff") && sub == "" && strings.HasSuffix(name, "tool"):
		return strings.Contains(e.value, "/") // git's shell reads a file of this name
	case section == "submodule" && name == "update":
		return strings.HasPrefix(e.value, "!")
	case section == "protocol" && name == "allow":
		return e.value != "never" && (sub == "" || sub == "ext" || sub == "fd")
	case section == "url":
		return strings.Contains(sub, "::")
	case name == "url" || name == "pushurl" || name == "pushdefault" || section == "branch" && (name == "remote" || name == "pushremote"):
		return strings.HasPrefix(e.value, "ext::")
	case e.value == "" || isBool(e.value) && (section == "pager" || name == "pager" || name == "fsmonitor"):
		return false
	}
	return slices.Contains(executingSections, section) || (sub == "alias" || strings.HasSuffix(sub, ".alias")) && !slices.Contains(namingSections, section) || slices.Contains(executingNames, name) ||
		executingKey(section+"."+name) ||
		slices.ContainsFunc(executingEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// protections are keys that keep git from something as long as they are true: from giving its passwords to another
// server, and from writing to .git what is meant for the work tree.
var protections = []string{"http.sslverify", "imap.sslverify", "credential.protectprotocol", "credential.sanitizeprompt", "core.protectntfs", "core.protecthfs"}

// leaves reports whether a directory is perhaps not below the one from which git starts, or is git's own.
func leaves(dir string) bool {
	return path.IsAbs(dir) || strings.HasPrefix(dir, "~") || slices.ContainsFunc(strings.Split(dir, "/"), func(e string) bool { return e == ".." || fold(e) == ".git" })
}

func isTrue(value string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}

func isBool(value string) bool {
	return isTrue(value) || slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(value))
}

// submodulePlace reports whether core.worktree has the value that git writes for a submodule: its work tree in the
// project. With another one, git checkout writes to an unexpected place.
func submodulePlace(config, value string, roots []string) bool {
	dir := path.Dir(config)
	_, linked, _ := strings.Cut(dir, "/.git/worktrees/") // where the submodules of a linked work tree have theirs
	_, linked, _ = strings.Cut(linked, "/")
	if !strings.Contains(dir, "/.git/modules/") && !strings.HasPrefix(linked, "modules/") {
		return false
	}
	if !path.IsAbs(value) {
		value = dir + "/" + value
	}
	value = path.Clean(value)
	return slices.ContainsFunc(roots, func(root string) bool { return paths.Inside(value, root) && value != root }) &&
		!strings.Contains(strings.ToLower(value)+"/", "/.git/")
}

// addedKeys returns the first executing key of a new configuration that the old one does not have, or "".
func addedKeys(at, old, now string, roots []string) string {
	if _, err := parseConfig(now); err != nil || strings.ContainsRune(now, 0) {
		return "what git cannot read"
	}
	return addedEntries(at, old, now, roots)
}

// addedEntries is addedKeys for a file that may not be a git configuration.
func addedEntries(at, old, now string, roots []string) string {
	list, _ := parseConfig(now)
	list = slices.DeleteFunc(list, func(e entry) bool { return !e.executes(at, roots) })
	if len(list) == 0 {
		return ""
	}
	entries, _ := parseConfig(old)
	before := make(map[entry]bool, len(entries))
	for _, e := range entries {
		before[e] = true
	}
	for _, e := range list {
		if !before[e] {
			return e.key
		}
	}
	return ""
}
