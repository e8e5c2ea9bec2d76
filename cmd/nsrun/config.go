//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/project"
)

var configVerb = usage.Verb{
	Name: "config", Args: "check|show|schema|init [flags] [--] [COMMAND [ARG…]]",
	Short: "check, show or create configuration files, or print their schema",
	Long: `check prints every mistake in the configuration files, one per line. show takes the flags
of nsrun run, and prints each setting and where it comes from. schema prints a JSON schema
for editors. init writes ~/.config/nsrun/config.toml with all settings as comments; it
does not replace an existing file. docs/config.md of the source tree explains the files
and their keys.`,
	Examples: `nsrun config show -- make`,
	Flags:    func(fs *flag.FlagSet) { policyFlags(fs, &runOptions{}, new(bool)) },
}

func cmdConfig(args []string) int {
	do := ""
	if len(args) > 0 {
		do, args = args[0], args[1:]
	}
	o, asJSON := &runOptions{}, false
	switch do {
	case "check", "schema", "init", "show":
	case "-h", "-help", "--help":
		return configVerb.Help()
	default:
		return configVerb.Fail(usage.Errorf("config", "check, show, schema or init?"))
	}
	if err := parseRun(&configVerb, args, o, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) }); err != nil {
		return configVerb.Fail(err)
	}
	if do != "show" && len(args) > 0 {
		return configVerb.Fail(usage.Errorf("config", "%s takes no arguments", do))
	}
	switch do {
	case "schema":
		return console.PrintText(string(config.Schema()))
	case "init":
		return initConfig()
	}
	wd, err := workDir()
	if err != nil {
		return console.Fail(err)
	}
	r := &runner{o: o, registry: project.Open(project.Options{}), given: make(map[string]string)}
	defer r.close()
	if o.dir != "" && o.dir != playground {
		if wd, err = workingDir(o.dir); err != nil {
			return console.Fail(err)
		}
	}
	projects, err := r.projects(wd)
	if err != nil {
		return console.Fail(err)
	}
	q, err := o.query(projects)
	if err != nil {
		return console.Fail(r.typed(err))
	}
	if do == "check" {
		return r.checkConfig(q)
	}
	return showConfig(q, asJSON)
}

// initConfig writes the user's file.
func initConfig() int {
	path := configfile.DefaultPlaces().User
	if path == "" {
		return console.Fail(errors.New("config: the home directory is not known"))
	}
	err := sys.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_, err = f.WriteString(config.Template())
			err = errors.Join(err, f.Chmod(0o600), f.Close()) // whatever the umask is
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return console.Fail(fmt.Errorf("config: %w (it is not replaced; try: nsrun config show)", err))
	case err != nil:
		return console.Fail(fmt.Errorf("config: %w", err))
	}
	return console.PrintText(escape.Quote(path) + "\n")
}

func (r *runner) checkConfig(q configfile.Query) int {
	files, err := configfile.Files(host.Home(), q)
	if err != nil {
		return console.Fail(err)
	}
	wrong := false
	for _, file := range files {
		for _, e := range file.Errors {
			wrong = true
			fmt.Println(escape.Printable(e.Error()))
		}
	}
	if !wrong {
		for _, err := range r.checkTogether(files) {
			fmt.Println(escape.Printable(err.Error()))
			wrong = true
		}
	}
	if wrong {
		return console.ExitFailed
	}
	return 0
}

// mostMistakes is how many mistakes of the files together are printed.
const mostMistakes = 100

// checkTogether makes the policies of a command without a profile and of one for each profile, and returns what only
// those show to be wrong in the files. After each mistake it goes on without the value that it is about.
func (r *runner) checkTogether(files []configfile.Read) (list []error) {
	commands := [][]string{{"true"}}
	for _, file := range files {
		for _, profile := range file.Layer.Profiles {
			commands = append(commands, profile.Match...)
		}
	}
	without := make(map[string]bool)
	var found []placedError
	for i, command := range commands {
		for len(found) < mostMistakes {
			at, err := r.checkPolicy(command, without, len(found)+i > 0)
			if at == "" || without[at] {
				break
			}
			found, without[at] = append(found, placedError{at, err}), true
		}
	}
	slices.SortStableFunc(found, func(a, b placedError) int { return slices.Compare(order(files, a.at), order(files, b.at)) })
	for _, e := range found {
		list = append(list, e.err)
	}
	return list
}

// order is the number of the file, of the line and of the column of a place.
func order(files []configfile.Read, at string) []int {
	for i, file := range files {
		if rest, ok := strings.CutPrefix(at, escape.Quote(file.Path)+":"); ok {
			line, column, _ := strings.Cut(rest, ":")
			l, _ := strconv.Atoi(line)
			c, _ := strconv.Atoi(column)
			return []int{i, l, c}
		}
	}
	return []int{len(files)}
}

// checkPolicy makes the policy of a command, without some values of the files. It returns an error that is about a
// place in the files, and that place. Other errors are about this machine or the project.
func (r *runner) checkPolicy(command []string, without map[string]bool, again bool) (at string, err error) {
	o := &runOptions{}
	if err := parseRun(&configVerb, nil, o, func(*flag.FlagSet) {}); err != nil {
		return "", err
	}
	o.command = command
	check := &runner{o: o, registry: r.registry, without: without, checks: again}
	c, q, err := check.request()
	if err == nil {
		_, err = nsrunlib.NewRunner(c).View(context.Background(), q)
	}
	err = check.typed(err)
	if e, ok := errors.AsType[*config.Error](err); ok {
		return e.Pos.String(), err
	}
	if e, ok := errors.AsType[*placedError](err); ok {
		return e.at, err
	}
	return "", nil
}

// settingReport is a setting in `config show --json`. The keys are stable.
type settingReport struct {
	Key   string       `json:"key"`
	Value any          `json:"value"` // null: nobody set it, and there is no default
	From  []fromReport `json:"from"`
}

// fromReport says where one element of a value, or the whole value, comes from.
type fromReport struct {
	Text    string `json:"text"`
	Source  string `json:"source"` // default, system, user, project, flag
	At      string `json:"at"`     // file:line:column, or a flag; empty: a default
	Profile string `json:"profile,omitempty"`
}

// showConfig prints the settings in effect.
func showConfig(q configfile.Query, asJSON bool) int {
	p, notes, err := configfile.Load(host.Home(), q)
	if err == nil && p == nil {
		p, err = config.Merge(nil, q.Flags, &config.Facts{})
	}
	if err != nil {
		return console.Fail(err)
	}
	for _, note := range notes {
		console.Say("%s", note)
	}
	var list []settingReport
	var out strings.Builder
	for i, k := range config.Keys {
		if k.To != "" {
			continue
		}
		s := settingReport{Key: k.Full(), Value: p.Value(i), From: []fromReport{}}
		var from []string
		items := p.Settings[i].Items
		if empty := p.Settings[i].Empty; empty.Source != config.Default {
			items = []config.Item{empty}
		}
		for _, item := range items {
			s.From = append(s.From, fromReport{item.Text, item.Source.String(), item.Pos.String(), item.Profile})
			if text := origin(item); !slices.Contains(from, text) {
				from = append(from, text)
			}
		}
		list = append(list, s)
		if asJSON {
			continue
		}
		value := p.TOML(i)
		if value == "" {
			value = "# " + k.Full() + " is not set"
		} else {
			value = k.Full() + " = " + value
		}
		if len(from) == 0 {
			from = []string{config.Default.String()}
		}
		fmt.Fprintf(&out, "%-40s # %s\n", escape.Printable(value), escape.Printable(strings.Join(from, ", ")))
	}
	if asJSON {
		return console.PrintJSON(list)
	}
	return console.PrintText(out.String())
}

// origin says in words where an item comes from.
func origin(item config.Item) string {
	text := item.Source.String()
	if item.Profile != "" {
		text = "profile " + item.Profile + ", " + text
	}
	if at := item.Pos.String(); at != "" {
		text += " " + at
	}
	return text
}
