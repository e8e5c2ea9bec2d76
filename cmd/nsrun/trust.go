//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
)

var trustVerb = usage.Verb{
	Name: "trust", Args: "[flags] [PATH]",
	Short: "trust a project's .nsrun.toml as it is now",
	Long: `Others may have written a project's .nsrun.toml, so the file can only make the policy
stricter until you trust it. You trust the present content: once the file changes, it is
no longer trusted. PATH is the file or the project (default: the current project). Read
the file first, and what the verb prints: that is the content that it has trusted.`,
	Flags: func(fs *flag.FlagSet) { trustFlags(fs, &trustOptions{}) },
}

type trustOptions struct{ list, revoke, json bool }

func trustFlags(fs *flag.FlagSet, o *trustOptions) {
	fs.BoolVar(&o.list, "list", false, "list the files that are trusted, and whether they changed")
	fs.BoolVar(&o.revoke, "revoke", false, "no longer trust the file")
	jsonFlag(fs, &o.json)
}

func cmdTrust(args []string) int {
	o := trustOptions{}
	words, status, ok := trustVerb.Parse(args, func(fs *flag.FlagSet) { trustFlags(fs, &o) })
	switch {
	case !ok:
		return status
	case o.list && (o.revoke || len(words) > 0), len(words) > 1, o.json && !o.list:
		return trustVerb.Fail(usage.Errorf("trust", "one path, or --list [--json]"))
	case o.list:
		return listTrusted(o.json)
	}
	path, err := trustPath(words)
	if err != nil && len(words) > 0 {
		err = fmt.Errorf("trust: %s: %w", escape.Quote(words[0]), err)
	}
	if err != nil {
		return console.Fail(err)
	}
	if o.revoke {
		found, err := configfile.Revoke(path)
		if err == nil && !found {
			err = fmt.Errorf("trust: %s is not trusted", escape.Quote(path))
		}
		if err != nil {
			return console.Fail(err)
		}
		return 0
	}
	content, err := trust(path)
	if err != nil {
		return console.Fail(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s is trusted until it changes:\n", escape.Quote(path))
	for line := range strings.Lines(string(content)) { // a command may have exchanged the file since it was read
		fmt.Fprintf(&out, "  %s\n", escape.Printable(strings.TrimSuffix(line, "\n")))
	}
	return console.PrintText(out.String())
}

// trust trusts the present content of a file, if that is a configuration, and returns it.
func trust(path string) ([]byte, error) {
	content, err := configfile.ReadProject(path)
	if err == nil && content == nil {
		err = os.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("trust: %s: %w", escape.Quote(path), err)
	}
	_, wrong := config.Decode(escape.Quote(path), config.Project, content, &config.Facts{Home: host.Home(), Project: filepath.Dir(path)})
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return content, configfile.Trust(path, content)
}

// trustPath is the file that words mean, without symbolic links.
func trustPath(words []string) (string, error) {
	wd, err := workDir()
	if err != nil {
		return "", err
	}
	if len(words) == 0 {
		dir, err := projectAround(wd)
		return filepath.Join(dir, configfile.ProjectName), err
	}
	path, err := fromHere(words[0])
	if err != nil {
		return "", err
	}
	if filepath.Base(path) != configfile.ProjectName {
		if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
			return "", errors.New("only files with the name " + configfile.ProjectName + " can be trusted")
		}
		path = filepath.Join(path, configfile.ProjectName)
	}
	dir, err := trusted(filepath.Dir(path))
	return filepath.Join(dir, configfile.ProjectName), err
}

// trustedReport is a file in `trust --list --json`. The keys are stable.
type trustedReport struct {
	configfile.Trusted
	State string `json:"state"` // trusted, changed, missing
}

func listTrusted(asJSON bool) int {
	list, err := configfile.ListTrusted()
	if err != nil {
		return console.Fail(err)
	}
	reports := []trustedReport{}
	var out strings.Builder
	for _, t := range list {
		r := trustedReport{t, "trusted"}
		switch content, err := configfile.ReadProject(t.Path); {
		case err == nil && content == nil:
			r.State = "missing"
		case err != nil || configfile.Hash(content) != t.Hash:
			r.State = "changed"
		}
		reports = append(reports, r)
		if !asJSON {
			fmt.Fprintf(&out, "%-8s %s\n", r.State, escape.Quote(t.Path))
		}
	}
	if asJSON {
		return console.PrintJSON(reports)
	}
	return console.PrintText(out.String())
}
