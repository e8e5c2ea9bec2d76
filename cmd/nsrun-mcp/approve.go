//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/mcpargs"
)

// The user is asked by the client (elicitation), in one of two ways:
//
//   - up to protocol version 2025-11-25 the server sends the question while the call
//     waits;
//   - since 2026-07-28 a server sends nothing of its own: the call's result is the
//     question, with a ticket, and the client calls again, with the ticket and the
//     answer. A ticket is good for one call, and only for what was asked about.
//
// Whatever is not a clear yes is a no, and no answer is used twice.

type question struct {
	session *mcp.ServerSession
	params  *mcp.CallToolParamsRaw
	in      mcpargs.Input
	input   *mcp.CallToolResult // the question, where it is the result; set by Approve
}

type questionKey struct{}

const sinceTickets = "2026-07-28"

const answerName = "network"

var (
	errAsk     = errors.New("the user has to be asked first")
	errCannot  = errors.New("this client cannot ask its user: it does not have the capability elicitation; the user can run the command in a terminal, with nsrun run --net host -c")
	errLate    = errors.New("nobody answered in time")
	errEnded   = errors.New("nobody can answer: standard input has ended")
	errRunning = errors.New("this client cannot be asked while a command runs")
	errDismiss = errors.New("the user closed the question without an answer")
	errTicket  = errors.New("the call answers a question that nobody asked, or that was answered already")
)

// Approve asks the user, through the client.
func (s *server) Approve(ctx context.Context, q nsrun.Question) (nsrun.Answer, error) {
	asked, ok := ctx.Value(questionKey{}).(*question)
	if !ok {
		return nsrun.Deny, errors.New("BUG: there is no call to ask about")
	}
	client := asked.session.InitializeParams()
	if client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil {
		return nsrun.Deny, errCannot
	}
	if c := client.Capabilities.Elicitation; c.Form == nil && c.URL != nil {
		return nsrun.Deny, errCannot
	}
	form := &mcp.ElicitParams{
		Mode:            "form",
		Message:         s.message(q, asked.in),
		RequestedSchema: json.RawMessage(`{"type": "object", "properties": {}}`),
	}
	if client.ProtocolVersion < sinceTickets {
		ctx, cancel := context.WithTimeout(ctx, s.options.AskTimeout)
		defer cancel()
		defer context.AfterFunc(s.input, cancel)()
		res, err := asked.session.Elicit(ctx, form)
		switch {
		case err != nil && s.input.Err() != nil:
			return nsrun.Deny, errEnded
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nsrun.Deny, errLate
		case err != nil:
			return nsrun.Deny, err
		}
		return judge(res)
	}
	if q.Running { // its result cannot be the question
		return nsrun.Deny, errRunning
	}
	if asked.params.RequestState == "" {
		asked.input = &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{answerName: form},
			RequestState:  s.tickets.issue(asked.in, time.Now().Add(s.options.AskTimeout)),
		}
		return nsrun.Deny, errAsk
	}
	if err := s.tickets.take(asked.params.RequestState, asked.in, time.Now()); err != nil {
		return nsrun.Deny, err
	}
	res, ok := asked.params.InputResponses[answerName].(*mcp.ElicitResult)
	if !ok {
		return nsrun.Deny, errTicket
	}
	return judge(res)
}

func judge(res *mcp.ElicitResult) (nsrun.Answer, error) {
	switch res.Action {
	case "accept":
		return nsrun.Allow, nil
	case "decline":
		return nsrun.Deny, nil
	case "cancel":
		return nsrun.Deny, errDismiss
	}
	return nsrun.Deny, fmt.Errorf("the client answered %s: expected accept, decline or cancel", escape.Quote(mcpargs.Cut(res.Action)))
}

// message is the question to the user, without control characters.
func (s *server) message(q nsrun.Question, in mcpargs.Input) string {
	dir := in.WorkingDir
	if dir == "" {
		dir = s.project
	}
	return q.String() + "\n\nWorking directory: " + spelled(dir) + "\nThe answer is for this one run. You are asked every time."
}

// spelled is the name of a directory, which the model chose, such that nobody can take any of it for nsrun's words.
func spelled(dir string) string {
	if text := escape.Quote(dir); text != dir || !strings.Contains(dir, " ") {
		return text
	}
	return escape.Printable(strconv.Quote(dir))
}

// tickets are unanswered questions. The zero value is ready.
type tickets struct {
	mu   sync.Mutex
	list []ticket // the oldest first
}

type ticket struct {
	state string
	in    mcpargs.Input
	until time.Time
}

// maxTickets is how many questions can wait; older ones are denied.
const maxTickets = 64

func (t *tickets) issue(in mcpargs.Input, until time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == maxTickets {
		t.list = t.list[1:]
	}
	state := rand.Text()
	t.list = append(t.list, ticket{state, in, until})
	return state
}

func (t *tickets) take(state string, in mcpargs.Input, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.list {
		if k.state != state {
			continue
		}
		t.list = append(t.list[:i:i], t.list[i+1:]...)
		switch {
		case k.in != in:
			return errTicket
		case now.After(k.until):
			return errLate
		}
		return nil
	}
	return errTicket
}
