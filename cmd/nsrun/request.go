//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// request makes a Request from the flags. It is long because each flag takes a line or two.
func (r *runner) request() (c nsrunlib.Config, q nsrunlib.Request, err error) {
	o := r.o
	wd, err := workDir()
	if err != nil {
		return c, q, err
	}
	dir := wd
	if o.dir != "" && o.dir != playground && !o.has(nsrunlib.WorkspaceRootPreset) {
		if dir, err = workingDir(o.dir); err != nil {
			return c, q, err
		}
	}
	r.given = make(map[string]string)
	projects, err := r.projects(dir)
	if err != nil {
		return c, q, err
	}
	if err := r.configure(projects); err != nil {
		return c, q, err
	}
	if err := o.checkAll(); err != nil {
		return c, q, err
	}
	c = nsrunlib.Config{
		Sandbox: o.sandbox, Backend: o.backend, Session: o.session, On: o.on, Engine: o.engine, Presets: o.presets, After: nsrunlib.Hold,
		Env: o.env, ClearEnv: o.clearEnv, Timeout: o.timeout, Grace: o.grace, Limits: o.limits, Approver: r, Watch: o.watch, Why: o.why,
		Net: netpolicy.Policy{Rules: o.allowNet}, Enforcer: o.enforcer, Publish: o.publish,
		Credentials: o.credentials, Gateway: gatewayProgram{},
	}
	for _, path := range o.allowUnix {
		abs, err := fromHere(path)
		if err != nil {
			return c, q, err
		}
		if path == nsrunlib.AbstractSockets || service.Is(path) {
			abs = path
		}
		r.given[abs] = path
		c.AllowUnix = append(c.AllowUnix, abs)
	}
	if _, _, err := project.DefaultDirs(); err == nil {
		c.Recorder = nsrunlib.Registry{Registry: r.registry}
	}
	c.BlockExisting, c.UserNamespaces, c.OwnIDs, c.Home, c.HomeSize = o.blockExisting, o.allowUserns, o.ownIDs, o.home, o.homeSize
	c.Devices = o.devices
	for _, dir := range o.caches {
		abs, err := fromHere(dir)
		if err != nil {
			return c, q, err
		}
		r.given[abs] = dir
		c.Caches = append(c.Caches, abs)
	}
	if o.direct {
		c.Mode = nsrunlib.Direct
	}
	switch {
	case len(o.projects) > 0:
		for _, abs := range projects {
			if c.Project == "" && o.has(nsrunlib.WorkspaceRootPreset) {
				c.Project = abs
				continue
			}
			c.Shared = append(c.Shared, nsrunlib.Folder{Path: abs, Mode: c.Mode})
		}
	case o.session == "" && o.on == "":
		c.Project = projects[0]
	}
	for _, rule := range o.paths {
		pattern := pathrule.Anchor(physical(wd), rule.Pattern)
		for _, m := range ruleModes {
			if m.kind == rule.Kind {
				c.Rules = append(c.Rules, nsrunlib.Rule{Mode: m.mode, Pattern: pattern})
			}
		}
	}
	if id := o.session + o.on; id != "" && o.dir == "" {
		if dir, err = sessionDir(id, dir); err != nil {
			return c, q, err
		}
	}
	switch {
	case o.has(nsrunlib.WorkspaceRootPreset):
		dir = workspaceDir(&c, o.dir, dir)
	case o.dir == playground:
		dir = playground
	}
	q = nsrunlib.Request{
		Args: o.command, WorkingDir: dir, Network: o.net == "host", LearnNet: o.learnNet,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Passthrough: true,
	}
	return c, q, nil
}

// workspaceDir returns the working directory of a command whose project is the root: that of -C, a path in the sandbox,
// or else the current directory's place in the project, if it has one.
func workspaceDir(c *nsrunlib.Config, given, dir string) string {
	if given != "" {
		return given
	}
	if real, err := realPath(dir); err == nil && c.Project != "" {
		if at, err := c.SandboxPath(real); err == nil {
			if host, err := c.HostPath(at); err == nil && host == real {
				return at
			}
		}
	}
	return "/"
}

// playground is the word that stands for $HOME/playground.
const playground = "playground"

// projects are the directories that a command works in, including those of a session.
func (r *runner) projects(dir string) (list []string, err error) {
	o := r.o
	for _, root := range o.projects {
		abs, err := fromHere(root)
		if err != nil {
			return nil, err
		}
		r.given[abs] = root
		list = append(list, abs)
	}
	switch id := o.session + o.on; {
	case len(list) > 0:
	case id != "":
		return sessionRoots(id)
	default:
		project, err := projectAround(dir)
		return []string{project}, err
	}
	return list, nil
}

func sessionRoots(id string) (list []string, err error) {
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, root := range s.Roots() {
		list = append(list, root.Path)
	}
	return list, nil
}

// sessionDir is the working directory of a command in an existing session: the first root, unless the current directory
// is in one.
func sessionDir(id, dir string) (string, error) {
	roots, err := sessionRoots(id)
	if err != nil {
		return "", err
	}
	if real, err := realPath(dir); err == nil {
		for _, root := range roots {
			if paths.Inside(real, root) {
				return dir, nil
			}
		}
	}
	return roots[0], nil
}

// workingDir is the directory that -C means.
func workingDir(name string) (string, error) {
	dir, err := fromHere(name)
	if err != nil {
		return "", err
	}
	real, err := trusted(dir)
	if led, ok := errors.AsType[*links.Error](err); ok {
		return "", usage.Errorf("run", "-C %s: %s", escape.Quote(name), led)
	}
	if err == nil {
		dir = real
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("working directory does not exist: %s", escape.Quote(name))
	case !fi.IsDir():
		return "", fmt.Errorf("working directory is not a directory: %s", escape.Quote(name))
	}
	return dir, nil
}

// A placedError is about what stands at a place in a configuration file.
type placedError struct {
	at  string
	err error
}

func (e *placedError) Error() string { return e.at + ": " + e.err.Error() }

func (e *placedError) Unwrap() error { return e.err }

// placed adds the place in a configuration file at which a key has one of some texts.
func (o *runOptions) placed(err error, key string, texts ...string) error {
	for _, text := range texts {
		if o.place == nil {
			break
		}
		if at := o.place(key, text); at != "" {
			return &placedError{at, err}
		}
	}
	return err
}

// keysOf are the keys of files that operations of the library are about.
var keysOf = map[string]string{
	"use as cache": "caches", "allow unix socket": "allow_unix", "own ids": "own_ids", "use credential for": "credentials",
	"use credential in": "credentials", "run without namespaces": "backend", "publish": "publish",
}

// portOf is the port of an address.
func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// placedByOp adds the place at which a file asks for what an operation failed to do.
func (o *runOptions) placedByOp(e *nsrunlib.Error) error {
	if e.Op == "allow user namespaces" {
		if placed := o.placed(e, "allow_userns", "true"); placed != error(e) {
			return placed
		}
		return o.placed(e, "presets", nsrunlib.BrowserPreset.String())
	}
	texts := []string{e.Path}
	if e.Op == "publish" {
		texts[0] = portOf(e.Path)
	}
	for _, name := range o.allowUnix {
		if strings.HasPrefix(name, e.Path+":") {
			texts = append(texts, name)
		}
	}
	for i := range o.credentials {
		if o.credentials[i].Name() == e.Path || o.credentials[i].File == e.Path {
			texts = append(texts, o.credentials[i].String())
		}
	}
	return o.placed(e, keysOf[e.Op], texts...)
}

// typed rewords an error so that it names what was typed.
func (r *runner) typed(err error) error {
	if e, ok := errors.AsType[*nsrunlib.RuleError](err); ok && e.Index < len(r.o.paths) {
		rule := r.o.paths[e.Index]
		if rule.Pos != (config.Pos{}) {
			return &placedError{rule.Pos.String(), fmt.Errorf("%s: %w", escape.Quote(rule.Pattern), e.Err)}
		}
		if text := e.Err.Error(); strings.HasSuffix(text, ")") && strings.Contains(text, "(try: ") {
			return errors.New("--" + rule.Kind + " " + escape.Quote(rule.Pattern) + ": " + text)
		}
		return usage.Errorf("run", "--%s %s: %s", rule.Kind, escape.Quote(rule.Pattern), e.Err)
	}
	if e, ok := errors.AsType[*nsrunlib.Error](err); ok {
		if errors.Is(e, nsrunlib.ErrDevice) {
			return r.o.placed(e, "devices", e.Path)
		}
		if e.Op == "configure" && r.o.has(nsrunlib.StrictPreset) && r.o.has(nsrunlib.WorkspaceRootPreset) {
			return r.o.placed(e, "presets", nsrunlib.WorkspaceRootPreset.String(), nsrunlib.StrictPreset.String())
		}
		if given, ok := r.given[e.Path]; ok {
			e.Path = given
		}
		return r.o.placedByOp(e)
	}
	if e, ok := errors.AsType[*broker.Error](err); ok && e.Op == "publish" {
		return r.o.placed(e, "publish", portOf(e.Path))
	}
	if e, ok := errors.AsType[*netpolicy.Error](err); ok && r.o.enforcer == nsrunlib.KernelEnforcer {
		return r.o.placed(e, "net_by", "kernel")
	}
	if e, ok := errors.AsType[*nsrunlib.LimitError](err); ok && e.Name != "" {
		return r.o.placed(e, e.Name, "")
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok && errors.Is(e, overlay.ErrRoot) {
		if given, ok := r.given[e.Path]; ok {
			e.Path = given
		}
	}
	if e, ok := errors.AsType[*nsrunlib.DirError](err); ok && r.o.dir != playground {
		return e.Err // with more about it
	}
	if e, ok := errors.AsType[*nsrunlib.DeniedError](err); ok {
		what, remedy := "network access", " (without a terminal, name what it may reach: --allow-net HOST)"
		if e.Question.Action == nsrunlib.ActionConnect {
			what, remedy = "access to "+escape.Quote(e.Question.Target), ""
		}
		text := what + " was not approved: it needs a yes on a terminal, every time"
		service, _, _ := strings.Cut(e.Question.Target, ",") // what it is follows
		return r.o.placed(errors.New(text+remedy), "allow_unix", service, e.Question.Target)
	}
	return err
}
