//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/mcpargs"
)

// atOnce is how many calls run at the same time.
const atOnce = 32

type server struct {
	protocol *mcp.Server
	runner   *nsrun.Runner
	options  *mcpargs.Options
	project  string
	life     context.Context // ends with the client
	input    context.Context // ends when the client can send nothing more, no answers to questions either
	slots    chan struct{}   // has one in it for each call that is worked on
	tickets  tickets
}

func newServer(life, input context.Context, o *mcpargs.Options, c nsrun.Config) *server {
	s := &server{options: o, project: c.Project, life: life, input: input, slots: make(chan struct{}, atOnce)}
	c.Approver = s
	s.runner = nsrun.NewRunner(c)
	s.protocol = mcp.NewServer(
		&mcp.Implementation{Name: "nsrun", Title: "nsrun: commands in a sandbox", Version: version()},
		&mcp.ServerOptions{
			Instructions: instructions(o, c),
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		})
	s.protocol.AddTool(tool(o, c), s.call)
	return s
}

// close waits for calls, whose contexts have ended, and for their cleanup.
func (s *server) close() error {
	for range atOnce {
		s.slots <- struct{}{}
	}
	return s.runner.Close()
}

// call answers tools/call. Models do not see the protocol's errors, so their mistakes are results.
func (s *server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	in, err := mcpargs.DecodeInput(req.Params.Arguments)
	if err != nil {
		return s.result(nsrun.Result{Err: err}, in), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q := nsrun.Request{Command: in.Command, WorkingDir: in.WorkingDir, Network: in.Network}
	if token := req.Params.GetProgressToken(); token != nil {
		p := newProgress(ctx, req.Session, token)
		defer p.stop()
		q.Stdout, q.Stderr = p, p
	}
	asked := &question{session: req.Session, in: in, params: req.Params}
	res, err := s.runner.Run(context.WithValue(ctx, questionKey{}, asked), q)
	if asked.input != nil && errors.Is(err, errAsk) {
		return asked.input, nil
	}
	if res.Unsandboxed != "" {
		say("NO SANDBOX: %s: %s", res.Unsandboxed, in.Command)
	}
	return s.result(res, in), nil
}
