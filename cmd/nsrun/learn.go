//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/project"
)

var learnVerb = usage.Verb{
	Name: "learn", Args: "[flags] [--] COMMAND [ARG…]",
	Short: "find the smallest configuration with which a command succeeds",
	Long: `Runs the command, allows what it was refused, and runs it again until it succeeds. Then
finds out which of these permissions the command does not need, and prints a configuration
file with the others. The command runs several times, without standard input. Everything
that it writes is discarded, even outside the project; what it does on a network is not
undone.
Reading files that you can read is allowed without a question. nsrun asks about each place
of secrets and each Unix socket, and about the network as with nsrun run --learn-net. What
--ro, --rw, --allow-unix and --allow-net name is allowed from the start, without a
question.`,
	Examples: `nsrun learn -o learned.toml -- npm test`,
	Flags:    func(fs *flag.FlagSet) { learnFlags(fs, &runOptions{}, new(string)) },
}

func learnFlags(fs *flag.FlagSet, o *runOptions, out *string) {
	runFlags(fs, o)
	outFlag(fs, out)
}

func outFlag(fs *flag.FlagSet, out *string) {
	fs.StringVar(out, "o", "", "write the configuration to a new `file`")
}

// notLearned are flags that are not about what a command may do, or that leave nothing to learn.
var notLearned = []string{"session", "on", "direct", "commit", "discard", "keep", "allow-exec", "allow-special", "net", "report", "explain", "watch", "why", "sandbox", "backend"}

func cmdLearn(args []string) int {
	o, out := &runOptions{}, ""
	err := parseRun(&learnVerb, args, o, func(fs *flag.FlagSet) { outFlag(fs, &out) })
	if err == nil && len(o.command) == 0 {
		err = usage.Errorf("learn", "no command")
	}
	for _, name := range notLearned {
		if err == nil && o.isGiven(name) {
			err = usage.Errorf("learn", "takes no %s", "--"+name)
		}
	}
	dir := sys.None
	if err == nil && out != "" {
		if dir, err = placeOfNew(out); err == nil {
			defer dir.Close()
		}
	}
	if err != nil {
		return learnVerb.Fail(err)
	}
	r := &runner{o: o, registry: project.Open(project.Options{})}
	defer r.close()
	return r.learn(dir, out)
}

// takeGiven returns the flags that allow something as needs, and removes them from the options.
func (o *runOptions) takeGiven() (given []nsrunlib.Need, err error) {
	var rest []config.Rule
	kinds := map[string]nsrunlib.RefusalKind{"ro": nsrunlib.RefusedRead, "rw": nsrunlib.RefusedWrite}
	for _, rule := range o.paths {
		kind, opens := kinds[rule.Kind]
		if !opens {
			rest = append(rest, rule)
			continue
		}
		p, err := pathrule.Parse(pathrule.Anchor(physical("/"), rule.Pattern), os.Getenv)
		base, literal := p.Base()
		if err == nil && !literal {
			err = errors.New("a path is needed: patterns cannot be learned")
		}
		if err != nil {
			return nil, usage.Errorf("learn", "--%s %s: %s", rule.Kind, escape.Quote(rule.Pattern), err)
		}
		given = append(given, nsrunlib.Need{Kind: kind, Target: base})
	}
	for _, rule := range o.allowNet {
		given = append(given, nsrunlib.Need{Kind: nsrunlib.RefusedConnect, Target: rule.String()})
	}
	for _, path := range o.allowUnix {
		if !service.Is(path) {
			if path, err = fromHere(path); err != nil {
				return nil, err
			}
		}
		given = append(given, nsrunlib.Need{Kind: nsrunlib.RefusedUnix, Target: path})
	}
	o.paths, o.allowNet, o.allowUnix = rest, nil, nil
	return given, nil
}

// learn runs the command until its needs are known, and writes them: to a new file in dir, if out is not empty.
func (r *runner) learn(dir sys.FD, out string) int {
	given, err := r.o.takeGiven()
	if err != nil {
		return learnVerb.Fail(err)
	}
	c, q, err := r.request()
	if err != nil {
		return console.Fail(r.typed(err))
	}
	c.Approver, c.After = nsrunlib.Terminal{Prefix: "nsrun: "}, nsrunlib.Discard
	q.Stdin, q.Stdout, q.Stderr, q.Passthrough = nil, nil, nil, false
	ctx, stop := console.Interruptible()
	defer stop()
	l, err := nsrunlib.Learn(ctx, c, q, nsrunlib.LearnOptions{Given: given, Ran: r.tellLearned(len(given))})
	if stuck, ok := errors.AsType[*nsrunlib.LearnError](err); ok {
		return r.failLearned(l, stuck)
	}
	if err != nil {
		return console.Fail(err)
	}
	file := lessonFile{project: c.Project, command: r.o.command, lesson: l}
	text, err := file.text()
	if err != nil {
		return console.Fail(err)
	}
	if !r.o.quiet {
		if len(l.Needs) == 0 {
			console.Say("the command needs no further permissions")
		} else {
			console.Say("found %s in %s", console.Plural(len(l.Needs), "need"), console.Plural(l.Runs, "run"))
		}
	}
	if out == "" {
		_, err = os.Stdout.Write(text)
	} else {
		err = writeNew(dir, out, text)
	}
	if err != nil {
		return console.Fail(fmt.Errorf("learn: %w", err))
	}
	if out != "" && filepath.Base(out) == configfile.ProjectName && !r.o.quiet {
		console.Say("it can only make the policy stricter until you trust it (try: nsrun trust %s)", escape.Command([]string{out}))
	}
	return 0
}

// tellLearned prints after each run what was newly allowed for it.
func (r *runner) tellLearned(known int) func(res nsrunlib.Result, opened []nsrunlib.Need) {
	n, said := 0, known
	return func(res nsrunlib.Result, opened []nsrunlib.Need) {
		if n++; r.o.quiet {
			return
		}
		for ; said < len(opened); said++ {
			console.Say("allowed: %s (%s)", opened[said].Flag(), opened[said].Comment())
		}
		text := fmt.Sprintf("run %d: exit status %d", n, res.ExitCode)
		if !res.Started {
			text = fmt.Sprintf("run %d: not started", n)
		}
		console.Say("%s", text)
	}
}

// failLearned says why nothing was learned, with the command's own output.
func (*runner) failLearned(l nsrunlib.Lesson, e *nsrunlib.LearnError) int {
	if l.Last.Started {
		for line := range strings.Lines(l.Last.String()) {
			fmt.Fprintln(os.Stderr, escape.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	for i, d := range e.Closed {
		if i == mostDenied {
			console.Say("and %d more", len(e.Closed)-i)
			break
		}
		console.Say("not allowed: %s", d)
	}
	if len(e.Closed) == 0 {
		return console.Fail(e)
	}
	return console.Fail(errors.New("the command still fails, and some permissions that it asked for were not given"))
}

// placeOfNew opens the directory of a file that does not exist yet. No command can have created a link on its path.
func placeOfNew(name string) (sys.FD, error) {
	fail := func(err error) (sys.FD, error) {
		return sys.None, usage.Errorf("learn", "-o %s: %s", escape.Quote(name), err)
	}
	path, err := fromHere(name)
	if err != nil {
		return fail(err)
	}
	real, err := trusted(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	dir, err := sys.Openat2(unix.AT_FDCWD, real, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return fail(err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, filepath.Base(path), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		_ = unix.Close(dir)
		return fail(os.ErrExist)
	}
	return sys.FD(dir), nil
}

// writeNew writes a file that does not exist yet.
func writeNew(dir sys.FD, name string, text []byte) error {
	fd, err := sys.Openat2(int(dir), filepath.Base(name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return fmt.Errorf("%s: %w", escape.Quote(name), err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
