//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
)

// The git directory of a linked work tree or a submodule is outside of it: .git is a file that names it. It becomes
// another root of the session, so that git works in the sandbox, and its writes are kept apart, too.
//
// That file is a part of the project, where commands of earlier sessions may have written to it. So the file alone is
// not trusted: the git directory must be the caller's own, and must name this work tree in turn.

// gitFileMost bounds how much is read of git's files, in bytes.
const gitFileMost = 1 << 20

// BelowGit reports whether git finds the work tree around a directory that is not its top.
func BelowGit(dir string) bool {
	tree, ok := links.WorkTree(dir)
	return ok && tree != dir && sameMount(tree, dir)
}

// ProjectRoots are the roots of a session over a project, whose path is free of links. NoGit
// says why git cannot write there; empty: it can, or there is no git directory.
func ProjectRoots(real string) (roots []string, noGit string) {
	git, err := outerGitDir(real)
	switch {
	case err != nil:
		return []string{real}, err.Error()
	case git == "" || paths.Inside(git, real):
		return []string{real}, ""
	case paths.Inside(real, git):
		return []string{git}, "" // a work tree in a bare repository
	}
	return []string{real, git}, ""
}

// outerGitDir is the git directory that root/.git names, if that is a file; for a linked work tree, that of the main
// work tree. Empty: there is none; git itself prints a better error. It is an error if there is one that must not be
// used.
func outerGitDir(root string) (string, error) {
	text, err := readOwn(filepath.Join(root, ".git"))
	if err != nil {
		return "", nil
	}
	name, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", nil
	}
	dir, err := RealPath(resolve(root, name))
	if err != nil || !IsDir(dir) {
		return "", nil
	}
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%s %s", escape.Quote(dir), why) }
	if !links.Own(dir) {
		return refuse("is not yours")
	}
	back, found := "", dir
	if common, err := readOwn(filepath.Join(dir, "commondir")); err == nil {
		if found, err = RealPath(resolve(dir, common)); err != nil || filepath.Dir(dir) != filepath.Join(found, "worktrees") {
			return refuse("is not where git has those of work trees")
		}
		if back, err = readOwn(filepath.Join(dir, "gitdir")); err != nil || filepath.Base(back) != ".git" {
			return refuse("names no work tree")
		}
		back = filepath.Dir(resolve(dir, back))
	} else {
		config, _ := readOwn(filepath.Join(dir, "config"))
		if back = coreWorkTree(config); back == "" {
			return refuse("names no work tree")
		}
		back = resolve(dir, back)
	}
	if real, err := RealPath(back); err != nil || real != root {
		return refuse("names another work tree")
	}
	if !links.Own(found) || !IsDir(filepath.Join(found, "objects")) || !IsDir(filepath.Join(found, "refs")) || !links.Own(filepath.Join(found, "HEAD")) {
		return "", fmt.Errorf("%s is not a git directory of yours", escape.Quote(found))
	}
	return found, nil
}

func resolve(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return dir + "/" + name // not cleaned: what comes before ".." may be a link
}

// readOwn reads a small regular file of the caller's, but no link, and removes the newline at its end.
func readOwn(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() {
		_ = unix.Close(fd)
		return "", errNotGits
	}
	text, err := readSmall(fd)
	return strings.TrimRight(text, "\r\n"), err
}

// coreWorkTree finds the value of core.worktree in a git configuration, in the form that git itself writes. Empty:
// there is none, or a person wrote it in another form.
func coreWorkTree(config string) (value string) {
	section := ""
	for line := range strings.SplitSeq(config, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
			continue
		}
		name, text, ok := strings.Cut(line, "=")
		if section != "[core]" || !ok || !strings.EqualFold(strings.TrimSpace(name), "worktree") {
			continue
		}
		if value = strings.TrimSpace(text); strings.ContainsAny(value, `"\#;`) {
			return ""
		}
	}
	return value
}
