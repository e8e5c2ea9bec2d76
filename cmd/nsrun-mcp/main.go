//go:build linux

// The runtime would open files of the cgroup, to find a limit for processors that does not matter here.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Nsrun-mcp serves the Model Context Protocol on standard input and output. `nsrun mcp` executes it, and nsrun help mcp
// explains it; it is a program of its own so that nsrun does not pay for its libraries.
//
// tool.go has the description for models, server.go the calls, result.go what a call returns, and approve.go the
// questions to the user. lines.go and end.go stand between the SDK and what clients send.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/credential/gateway"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/internal/stuck"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// Standard output belongs to the protocol. Our lines go to standard error, which clients
// keep as a log, begin with "nsrun: ", and are few.

// Exit statuses, as nsrun has them.
const exitFailed = 125

func main() { os.Exit(serve(os.Args[1:])) }

func say(format string, args ...any) {
	_, _ = os.Stderr.WriteString("nsrun: " + escape.Printable(fmt.Sprintf(format, args...)) + "\n")
}

func fail(err error) int {
	say("mcp: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailed
}

// serve serves until the client is gone, or a signal ends it.
func serve(args []string) int {
	if secureexec.On() {
		return fail(secureexec.Err)
	}
	stuck.Relay(func(stuck.Calls) {}, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	mcpargs.ShowRuntime()
	o, err := mcpargs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		say("try: nsrun help mcp")
		return 0
	}
	if err != nil {
		return fail(err)
	}
	config, err := configure(o)
	if err != nil {
		return fail(err)
	}
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		say("serving the Model Context Protocol on standard input; usually an agent's program starts nsrun mcp, not a terminal (try: nsrun help mcp)")
	}
	life, cancel := context.WithCancelCause(context.Background())
	end := func() { cancel(nil) }
	defer end()
	defer signals(end)()
	input, inputEnded := context.WithCancel(context.Background())
	defer inputEnded()
	context.AfterFunc(input, func() {
		time.AfterFunc(grace+o.Timeout, func() { cancel(errGrace) })
		hangup(1)
		end()
	})
	if _, _, err := project.DefaultDirs(); err == nil {
		registry := project.Open(kept())
		defer registry.Close()
		config.Recorder = nsrun.Registry{Registry: registry}
	}
	s := newServer(life, input, o, config)
	// A client that is gone or does not read can block writes for ever; do not wait for them.
	done := make(chan error, 1)
	go func() {
		out, owed := &stdout{File: os.Stdout}, new(sync.WaitGroup)
		in := newLines(os.Stdin, out, owed)
		stdio := &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: -1} // lines has a limit
		done <- s.protocol.Run(life, transport{stdio, in, owed, inputEnded})
	}()
	select {
	case err = <-done:
	case <-life.Done():
	}
	if life.Err() != nil {
		err = context.Cause(life)
	}
	end()
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	if cerr := unlessStuck(closed); cerr != nil {
		say("mcp: %s", cerr)
	}
	nsexec.Shutdown()
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	return 0
}

// stuckFor is how long a file system may take to answer after the end. A variable for the tests.
var stuckFor = 5 * time.Second

// unlessStuck waits for the cleanup, but not for a file system that does not answer: then the next nsrun does it.
func unlessStuck(closed <-chan error) error {
	for {
		before := stuck.Now()
		select {
		case err := <-closed:
			return err
		case <-time.After(stuckFor):
		}
		if file, still := before.Still(); still {
			return fmt.Errorf("given up waiting for %s, which does not answer; the next nsrun finishes what was begun", escape.Quote(file))
		}
	}
}

// signals ends the server on signals that ask for it. Not SIGPIPE: a client that is gone causes errors.
func signals(end func()) (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		if _, ok := <-c; ok {
			end()
		}
	}()
	return func() {
		signal.Stop(c)
		signal.Stop(pipe)
		close(c)
	}
}

// configure makes a Config from the flags. It reports mistakes in them before the first command runs. It is long
// because each flag takes a line or two.
func configure(o *mcpargs.Options) (c nsrun.Config, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return c, err
	}
	projects := o.Projects
	if len(projects) == 0 {
		projects = []string{nsrun.FindProject(wd)}
	}
	state, err := overlay.DefaultDir()
	if err != nil {
		return c, err
	}
	for i, dir := range projects {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(wd, dir)
		}
		real, err := links.Resolve(dir, new(links.Written).Suspect)
		if err == nil {
			var fi os.FileInfo
			if fi, err = os.Stat(real); err == nil && !fi.IsDir() {
				err = syscall.ENOTDIR
			}
		}
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		switch {
		case err != nil:
			return c, &nsrun.Error{Op: "use as project", Path: dir, Err: err}
		case strings.HasPrefix(state, strings.TrimSuffix(real, "/")+"/"):
			// Some programs start their servers in / or the home directory.
			return c, fmt.Errorf("the project would be %s, which contains nsrun's state directory (try: --project DIR)", real)
		case i == 0:
			c.Project = real
		default:
			c.Shared = append(c.Shared, nsrun.Folder{Path: real})
		}
	}
	if o.Sandbox != "" {
		if c.Sandbox, err = nsrun.ParseSandboxMode(o.Sandbox); err != nil {
			return c, err
		}
	}
	if o.Backend != "" {
		if c.Backend, err = nsrun.ParseBackend(o.Backend); err != nil {
			return c, err
		}
	}
	if err := settings(o, &c); err != nil {
		return c, err
	}
	if o.NetBy != "" && !byRules(o, &c) {
		return c, errors.New("--net-by needs --allow-net or --publish")
	}
	for _, p := range o.Paths {
		mode := map[string]nsrun.Mode{"rw": nsrun.Direct, "ro": nsrun.ReadOnly, "protect": nsrun.Protected, "block": nsrun.Blocked}[p.Kind]
		c.Rules = append(c.Rules, nsrun.Rule{Mode: mode, Pattern: pathrule.Anchor(wd, p.Pattern)})
	}
	c.Devices = o.Devices
	if c.BlockExisting, c.UserNamespaces, c.OwnIDs, c.Home = o.BlockExisting, o.AllowUserns, o.OwnIDs, nsrun.HomeLayer; o.Home != "" {
		if c.Home, err = nsrun.ParseHome(o.Home); err != nil {
			return c, err
		}
	}
	c.After = [...]nsrun.After{mcpargs.Commit: nsrun.Commit, mcpargs.Keep: nsrun.Keep, mcpargs.Discard: nsrun.Discard}[o.After]
	for _, path := range o.AllowUnix {
		if !filepath.IsAbs(path) && !service.Is(path) {
			path = filepath.Join(wd, path)
		}
		c.AllowUnix = append(c.AllowUnix, path)
	}
	c.Credentials, c.Gateway = o.Credentials, gateway.Gateway{}
	c.Net, c.Publish, c.ClearEnv = netpolicy.Policy{Rules: o.Net}, o.Publish, o.ClearEnv
	c.Enforcer = map[string]nsrun.Enforcer{"kernel": nsrun.KernelEnforcer, "broker": nsrun.BrokerEnforcer}[o.NetBy]
	if o.Build {
		c.Preset = nsrun.BuildPreset
	}
	c.Env, c.Timeout, c.MaxOutput = o.Env, o.Timeout, o.MaxOutput
	if unsandboxed(c) {
		say("NO SANDBOX: commands run without one, and can do all that you can")
	}
	// Other notices depend on when a command runs.
	err = nsrun.NewRunner(c).Explain(context.Background(), io.Discard, nsrun.Request{Command: "true"})
	if e, ok := errors.AsType[*nsrun.RuleError](err); ok {
		rule := o.Paths[e.Index]
		if rule.Pos != (config.Pos{}) {
			return c, fmt.Errorf("%s: %s: %w", rule.Pos, escape.Quote(rule.Pattern), e.Err)
		}
		return c, fmt.Errorf("--%s %s: %w", rule.Kind, escape.Quote(rule.Pattern), e.Err)
	}
	return c, nil
}

func version() string {
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" && bi.Main.Version != "(devel)" {
		return bi.Main.Version
	}
	return "devel"
}
