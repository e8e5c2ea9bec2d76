//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

func TestTool(t *testing.T) {
	p := newPlace(t)
	for _, version := range versions {
		c := p.connect(version, nil, "--timeout", "10m", "--rw", p.at("bin"))
		list, err := c.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 1 {
			t.Fatalf("%s: %v, %v", version, list, err)
		}
		tool := list.Tools[0]
		if tool.Name != "run_command" {
			t.Errorf("the tool is %s", tool.Name)
		}
		for _, want := range []string{
			p.at("p"), "$HOME/playground", "the rest of $HOME", "Everything else is read-only", "does not have access to the network",
			"set the `network` parameter to `true`", "asked every time", "A command is ended after 10m0s", p.at("bin"), "the project when the command has ended",
		} {
			if !strings.Contains(tool.Description, want) {
				t.Errorf("the description does not mention %q:\n%s", want, tool.Description)
			}
		}
		schema := tool.InputSchema.(map[string]any)
		types := make(map[string]any)
		for name, s := range schema["properties"].(map[string]any) {
			types[name] = s.(map[string]any)["type"]
			if s.(map[string]any)["description"] == "" {
				t.Errorf("%s has no description", name)
			}
		}
		if want := (map[string]any{"command": "string", "working_dir": "string", "network": "boolean"}); !reflect.DeepEqual(types, want) {
			t.Errorf("parameters are %v", types)
		}
		if !reflect.DeepEqual(schema["required"], []any{"command"}) || schema["additionalProperties"] != false {
			t.Errorf("the schema is %v", schema)
		}
		if tool.OutputSchema == nil || tool.Annotations.ReadOnlyHint {
			t.Errorf("output %v, annotations %+v", tool.OutputSchema, tool.Annotations)
		}
		init := c.InitializeResult()
		if init.ProtocolVersion != version || !strings.Contains(init.Instructions, "no network") {
			t.Errorf("%s: %+v", version, init)
		}
		c.close()
	}
}

// TestSchema: the schema of results has the keys that they have.
func TestSchema(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Items struct {
				Properties map[string]any
			}
		}
		Required []string
	}
	if err := json.Unmarshal([]byte(outputSchema), &schema); err != nil {
		t.Fatal(err)
	}
	keys := func(v any) (list []string) {
		for i := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			list = append(list, name)
		}
		return list
	}
	if want := keys(report{}); !reflect.DeepEqual(schema.Required, want) {
		t.Errorf("the required keys are %v, the type has %v", schema.Required, want)
	}
	for _, name := range schema.Required {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("the schema does not describe %s", name)
		}
	}
	change := schema.Properties["changes"].Items.Properties
	for _, name := range keys(reflect.New(reflect.TypeOf(report{}.Changes).Elem()).Elem().Interface()) {
		if _, ok := change[name]; !ok {
			t.Errorf("the schema does not describe %s of a change", name)
		}
		delete(change, name)
	}
	if len(change) > 0 {
		t.Errorf("a change has no %v", change)
	}
}

func TestRunCommand(t *testing.T) {
	p := newPlace(t, "f: 1")
	for _, version := range versions {
		c := p.connect(version, nil)
		for command, want := range map[string]string{
			"echo out; echo err >&2; exit 3":        "out\nerr\nexit code: 3\n",
			"true":                                  "(no output)",
			"pwd":                                   p.at("p") + "\n",
			"cat":                                   "(no output)",
			`printf '\033[31mred'`:                  `\x1b[31mred`,
			"touch /usr/x 2>&1 | grep -o Read-only": "Read-only\n",
			"ls ../home":                            "playground\n",
		} {
			if got := c.sh(command); got != want {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
		res := c.call(args{"command": "cat f; echo 2 >f; mkdir new; exit 1"})
		r := structured(t, res)
		if res.IsError || r.Text != text(res) || r.ExitCode == nil || *r.ExitCode != 1 || r.State != "committed" || r.Session == "" || r.Engine == "" ||
			r.ChangesTotal != 2 || len(r.Changes) != 2 || r.Changes[0].Path != "f" || r.Changes[1].Path != "new" || r.Network.Mode != "none" || r.Error != "" {
			t.Errorf("%+v", r)
		}
		if got := p.content("p/f"); got != "2\n" {
			t.Errorf("the project has %q", got)
		}
		c.close()
		testenv.Tree(t, p.at("p"), "f: 1")
		if err := os.Remove(p.at("p/new")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkingDir: the texts are those that the seeds ask for.
func TestWorkingDir(t *testing.T) {
	p := newPlace(t, "sub/")
	c := p.connect("", nil)
	for dir, want := range map[string]string{
		"":                      p.at("p") + "\n",
		"sub":                   p.at("p/sub") + "\n",
		p.at("p/sub"):           p.at("p/sub") + "\n",
		"/usr":                  "/usr\n",
		"playground":            p.at("home/playground") + "\n",
		"$HOME/playground":      p.at("home/playground") + "\n",
		p.at("home/playground"): p.at("home/playground") + "\n",
		"/x":                    "ERROR: Working directory does not exist: /x",
		"/x\x1b[2J":             `ERROR: Working directory does not exist: /x\x1b[2J`,
		"/etc/passwd":           "ERROR: Working directory is not a directory: /etc/passwd",
		"a\x00b":                "ERROR: Parameter working_dir has the character NUL in it, which no system call takes",
	} {
		res := c.call(args{"command": "pwd", "working_dir": dir})
		if got := text(res); got != want || res.IsError != strings.HasPrefix(want, "ERROR: ") {
			t.Errorf("%q: %q, %v, want %q", dir, got, res.IsError, want)
		}
		if r := structured(t, res); res.IsError && (r.ExitCode != nil || r.Error != want || r.State != "discarded") {
			t.Errorf("%q: %+v", dir, r)
		}
	}
	if res := c.call(args{"command": "pwd", "working_dir": nil, "network": nil}); text(res) != p.at("p")+"\n" {
		t.Errorf("null: %q", text(res))
	}
	c.sh("echo kept > ~/playground/f")
	if b, err := os.ReadFile(p.playground("f")); string(b) != "kept\n" {
		t.Errorf("the playground has %q, %v", b, err)
	}
	if got := p.sessions(); len(got) != 0 {
		t.Errorf("sessions: %q", got)
	}
}

// TestPolicies: --commit is tested above.
func TestPolicies(t *testing.T) {
	p := newPlace(t, "../other/")
	c := p.connect("", nil, "--discard")
	c.sh("echo 1 >f")
	if got := c.sh("cat f 2>&1 | grep -o 'No such'"); got != "No such\n" || p.content("p/f") != "-" {
		t.Errorf("--discard: %q, %q", got, p.content("p/f"))
	}
	c.close()
	if got := p.sessions(); len(got) != 0 {
		t.Errorf("--discard left %q", got)
	}
	c = p.connect("", nil, "--keep")
	r := structured(t, c.call(args{"command": "echo 1 >f"}))
	if got := c.sh("cat f"); got != "1\n" || p.content("p/f") != "-" || r.State != "kept" {
		t.Errorf("--keep: %q, %q, %+v", got, p.content("p/f"), r)
	}
	c.close()
	if got := p.sessions(); len(got) != 1 || filepath.Base(got[0]) != r.Session {
		t.Errorf("--keep left the sessions %q, and reported %s", got, r.Session)
	}
	c = p.connect("", nil, "--text-only", "--project", p.at("other"), "--project", p.at("p"))
	res := c.call(args{"command": "pwd; echo 2 >" + p.at("p/g")})
	if text(res) != p.at("other")+"\n" || res.StructuredContent != nil || p.content("p/g") != "2\n" {
		t.Errorf("%q, %v, %q", text(res), res.StructuredContent, p.content("p/g"))
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || list.Tools[0].OutputSchema != nil {
		t.Errorf("--text-only: %v, %v", list.Tools[0].OutputSchema, err)
	}
}

// TestNothingIsLost: what cannot be committed, or was given up, is kept, and said.
func TestNothingIsLost(t *testing.T) {
	p := newPlace(t, "f: 1")
	c := p.connect("", nil)
	done := make(chan *mcp.CallToolResult)
	go func() {
		res, err := c.try(t.Context(), args{"command": "echo theirs >f; touch ~/playground/written; until [ -e ~/playground/go ]; do sleep 0.01; done; echo said"})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	await(t, p.playground("written"))
	testenv.Tree(t, p.at("p"), "f: mine")
	testenv.Tree(t, filepath.Dir(p.playground("go")), "go")
	res := <-done
	r := structured(t, res)
	if !res.IsError || !strings.HasPrefix(text(res), "said\nERROR: ") || r.State != "kept" || r.Session == "" || r.ChangesTotal != 1 || p.content("p/f") != "mine" {
		t.Errorf("%q, %+v, %q", text(res), r, p.content("p/f"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		await(t, p.playground("new"))
		cancel()
	}()
	if _, err := c.try(ctx, args{"command": "echo 1 >new; touch ~/playground/new; sleep 1000.75"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The SDK's client takes a call back beside what it does next; its end alone does not.
	testenv.Eventually(t, "the call is taken back", func() bool { return !running("1000.75") })
	c.close()
	if got := p.sessions(); len(got) != 2 || p.content("p/new") != "-" {
		t.Errorf("sessions %q, and the project has %q", got, p.content("p/new"))
	}
}

// TestLoser: if two calls write one file, the second one's result says where its changes are, and what to do with them.
func TestLoser(t *testing.T) {
	p := newPlace(t, "f: 1")
	c := p.connect("", nil)
	done := make(chan *mcp.CallToolResult)
	go func() {
		res, err := c.try(t.Context(), args{"command": "echo theirs >f; touch ~/playground/written; until [ -e ~/playground/go ]; do sleep 0.01; done"})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	await(t, p.playground("written"))
	c.sh("echo mine >f")
	testenv.Tree(t, filepath.Dir(p.playground("go")), "go")
	r := structured(t, <-done)
	for _, want := range []string{"ERROR: Conflict", "NOTE: The changes are not in the project, and not lost: they are kept as session " + r.Session, "nsrun review " + r.Session, "--merge"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("%q is not in %q", want, r.Text)
		}
	}
	if r.State != "kept" || r.Session == "" || p.content("p/f") != "mine\n" {
		t.Errorf("%+v, the project has %q", r, p.content("p/f"))
	}
}

// TestRefusedNetwork: what was refused is said in one line, without rules too; and nothing
// where nothing was.
func TestRefusedNetwork(t *testing.T) {
	p := newPlace(t)
	if _, err := exec.LookPath("bash"); err != nil {
		testenv.Skip(t, "bash", "the test opens connections with bash")
	}
	c := p.connect("", nil)
	notes := func(c client, command string) (list []string) {
		for line := range strings.Lines(text(c.call(args{"command": command}))) {
			if strings.HasPrefix(line, "NOTE: ") {
				list = append(list, line)
			}
		}
		return list
	}
	// Somebody has to look before it ends, which takes well under the time that a program
	// takes to be loaded ten times.
	const try, load = "bash -c ': </dev/tcp/192.0.2.1/80'; ", "for i in 1 2 3 4 5 6 7 8 9 10; do bash -c :; done; "
	if got := notes(c, try+load+"exit 1"); len(got) != 1 || !strings.Contains(got[0], "`network` set to true") || !strings.Contains(got[0], "nsrun mcp --allow-net RULE") {
		t.Errorf("without rules: %q", got)
	}
	for _, command := range []string{try + "true", "exit 1", "bash -c ': </dev/tcp/127.0.0.1/9'; exit 1"} {
		if got := notes(c, command); got != nil {
			t.Errorf("%s: %q", command, got)
		}
	}
	c = p.connect("", nil, "--allow-net", "tcp:192.0.2.9", "--net-by", "broker")
	if got := notes(c, try+"exit 0"); len(got) != 1 || got[0] != "NOTE: network: tcp 192.0.2.1:80 was denied: the user can allow it with nsrun mcp --allow-net tcp:192.0.2.1:80\n" {
		t.Errorf("with rules: %q", got)
	}
}

// TestRules: hosts, ports and sockets that flags name, and nothing else, are reached without
// a question.
func TestRules(t *testing.T) {
	p := newPlace(t)
	command := listen(t) // cat </dev/tcp/127.0.0.1/PORT
	_, port, _ := strings.Cut(command, "127.0.0.1/")
	port = strings.Trim(port, "'")
	rule := "tcp:127.0.0.1:" + port
	c := p.connect("", nil, "--allow-net", rule, "--clear-env", "--env", "A=1")
	if got := c.sh(command + "; echo $A"); got != "hello\n1\n" {
		t.Errorf("%q", got)
	}
	res := structured(t, c.call(args{"command": "true"}))
	if res.Network.Mode != "kernel" && res.Network.Mode != "broker" {
		t.Errorf("the mode is %s", res.Network.Mode)
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || !strings.Contains(list.Tools[0].Description, "network but "+rule) || !strings.Contains(c.InitializeResult().Instructions, rule) {
		t.Errorf("%v: the description does not name the rule", err)
	}
	l, err := net.Listen("unix", p.at("s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, flags := range [][]string{nil, {"--allow-unix", "../s"}} {
		c := p.connect("", nil, append(flags, "--ro", p.dir)...)
		want := "no"
		if flags != nil {
			want = "yes"
		}
		if got := strings.TrimSpace(c.sh("test -S " + p.at("s") + " && echo yes || echo no")); got != want {
			t.Errorf("%q: %q, want %q", flags, got, want)
		}
	}
	for _, bad := range [][]string{{"--allow-net", "x:0"}, {"--publish", "0"}, {"--net-by", "broker"}, {"--preset", "git"}, {"--allow-unix", ""}} {
		cmd := p.command(bad...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "nsrun: mcp: ") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: %v, %s", bad, err, out)
		}
	}
}

func TestLimits(t *testing.T) {
	p := newPlace(t)
	c := p.connect("", nil, "--max-output", "1K")
	res := c.call(args{"command": "seq 10000"})
	if r := structured(t, res); len(text(res)) > 1200 || !r.Output.Truncated || !strings.Contains(text(res), "bytes of output were cut here") {
		t.Errorf("%d bytes, %+v", len(text(res)), r.Output)
	}
	c = p.connect("", nil, "--timeout", "50ms")
	res = c.call(args{"command": "sleep 1000"})
	if r := structured(t, res); !res.IsError || !r.TimedOut || strings.TrimSpace(text(res)) != "ERROR: Timed out after 50ms: the command was ended" {
		t.Errorf("%q, %+v", text(res), r)
	}
	c = p.connect("", nil)
	res = c.call(args{"command": "seq 200 | xargs touch"})
	if r := structured(t, res); r.ChangesTotal != 200 || len(r.Changes) != maxChanges {
		t.Errorf("%d of %d changes", len(r.Changes), r.ChangesTotal)
	}
}

// asked is a user who gives one answer, and what they were asked.
type asked struct {
	mu       sync.Mutex
	messages []string
}

func (a *asked) options(action string, err error) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.messages = append(a.messages, req.Params.Message)
		if err != nil {
			return nil, err
		}
		return &mcp.ElicitResult{Action: action}, nil
	}}
}

// listen is a server on the host's loopback, and a command that talks to it.
func listen(t *testing.T) (command string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		testenv.Skip(t, "bash", "the test opens connections with bash")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return fmt.Sprintf("bash -c 'cat </dev/tcp/127.0.0.1/%d'", l.Addr().(*net.TCPAddr).Port)
}

// TestNetworkIsAskedFor: every time, and whatever is no yes is a no.
func TestNetworkIsAskedFor(t *testing.T) {
	p := newPlace(t)
	command := listen(t)
	for _, version := range versions {
		for _, answer := range []struct {
			action string
			err    error
			want   string
		}{
			{"accept", nil, ""},
			{"decline", nil, "ERROR: Network access was denied: the command was not run"},
			{"cancel", nil, "ERROR: Network access was denied: the command was not run (" + errDismiss.Error() + ")"},
			{"", errors.New("out of order"), ""},
		} {
			name := version + " " + answer.action
			var user asked
			c := p.connect(version, user.options(answer.action, answer.err))
			// A command that does not ask for the network has none, and no question is asked.
			if got := c.sh(command); !strings.Contains(got, "exit code: 1") || strings.Contains(got, "hello") {
				t.Errorf("%s: without the network: %q", name, got)
			}
			for n := 1; n <= 2; n++ {
				res, err := c.try(t.Context(), args{"command": command + "; touch ran", "network": true, "working_dir": "."})
				switch {
				case answer.err != nil && version >= sinceTickets:
					// The client asks before it calls again.
					if err == nil {
						t.Errorf("%s: %q", name, text(res))
					}
				case err != nil:
					t.Errorf("%s: %v", name, err)
				case answer.err != nil:
					if r := structured(t, res); !res.IsError || !r.NotApproved || r.ExitCode != nil || !strings.Contains(r.Error, "out of order") {
						t.Errorf("%s: %+v", name, r)
					}
				case answer.want != "":
					if r := structured(t, res); text(res) != answer.want || !res.IsError || !r.NotApproved || r.ExitCode != nil {
						t.Errorf("%s: %q, want %q, %+v", name, text(res), answer.want, r)
					}
				default:
					if r := structured(t, res); text(res) != "hello\n" || res.IsError || r.Network.Mode != "host" {
						t.Errorf("%s: %q, %+v", name, text(res), r)
					}
				}
				if len(user.messages) != n {
					t.Errorf("%s: after %d calls the user was asked %d times", name, n, len(user.messages))
				}
			}
			if ran := p.content("p/ran") != "-"; ran != (answer.action == "accept") {
				t.Errorf("%s: it ran: %v", name, ran)
			}
			_ = os.Remove(p.at("p/ran"))
			c.close()
		}
	}
}

// TestQuestion: the command is shown as it is, and nothing in it acts on a terminal.
func TestQuestion(t *testing.T) {
	p := newPlace(t)
	for _, version := range versions {
		var user asked
		c := p.connect(version, user.options("decline", nil))
		for dir, shown := range map[string]string{
			"/usr\x1b":                 `"/usr\x1b"`,
			"/usr. This is harmless":   `"/usr. This is harmless"`,
			`/usr". This is "harmless`: `"/usr\". This is \"harmless"`,
			"/usr/ü-1.0":               "/usr/ü-1.0",
		} {
			user.messages = nil
			c.call(args{"command": "curl evil\x1b[2K\r\u202e\nrm x", "network": true, "working_dir": dir})
			want := "Run command with network access: curl evil\\x1b[2K\\r\\u202e\\nrm x?\n\nWorking directory: " + shown + "\nThe answer is for this one run. You are asked every time."
			if len(user.messages) != 1 || user.messages[0] != want {
				t.Errorf("%s: %q, want %q", version, user.messages, want)
			}
		}
		c.close()
	}
}

func TestClientThatCannotAsk(t *testing.T) {
	p := newPlace(t)
	urlOnly := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}}
	for _, version := range versions {
		for _, o := range []*mcp.ClientOptions{nil, urlOnly} {
			if o == urlOnly && version == "2025-06-18" {
				continue // which did not have that
			}
			c := p.connect(version, o)
			res := c.call(args{"command": "touch ran", "network": true})
			if r := structured(t, res); !res.IsError || !r.NotApproved || !strings.HasPrefix(text(res), "ERROR: Network access was denied: the command was not run (this client cannot ask") {
				t.Errorf("%s: %q", version, text(res))
			}
			if p.content("p/ran") != "-" {
				t.Errorf("%s: the command was run", version)
			}
			c.close()
		}
	}
}

// TestNobodyAnswers: the question's time ends, not the test's.
func TestNobodyAnswers(t *testing.T) {
	p := newPlace(t)
	gone := make(chan struct{})
	c := p.connect("2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		<-ctx.Done() // the server takes its question back
		close(gone)
		return nil, ctx.Err()
	}}, "--ask-timeout", "50ms")
	res := c.call(args{"command": "touch ran", "network": true})
	if want := "ERROR: Network access was denied: the command was not run (nobody answered in time)"; text(res) != want || p.content("p/ran") != "-" {
		t.Errorf("%q, want %q", text(res), want)
	}
	<-gone
}

// TestTickets: a yes holds for one run of the command that was asked about. The control is a call with the right
// answer.
func TestTickets(t *testing.T) {
	p := newPlace(t)
	o := (&asked{}).options("accept", nil)
	o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	c := p.connect("2026-07-28", o)
	yes := mcp.InputResponseMap{answerName: &mcp.ElicitResult{Action: "accept"}}
	call := func(a args, state string, answers mcp.InputResponseMap) *mcp.CallToolResult {
		t.Helper()
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: toolName, Arguments: a, RequestState: state, InputResponses: answers})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	ask := func(a args) string {
		t.Helper()
		res := call(a, "", nil)
		if !res.NeedsInput() || res.RequestState == "" || len(res.InputRequests) != 1 {
			t.Fatalf("no question: %+v", res)
		}
		return res.RequestState
	}
	good, bad := args{"command": "echo good", "network": true}, args{"command": "echo bad", "network": true}
	denied := func(what string, res *mcp.CallToolResult) {
		t.Helper()
		if !res.IsError || !strings.HasPrefix(text(res), "ERROR: Network access was denied") {
			t.Errorf("%s: %q", what, text(res))
		}
	}
	state := ask(good)
	if got := text(call(good, state, yes)); got != "good\n" {
		t.Errorf("the control: %q", got)
	}
	denied("a ticket that was used", call(good, state, yes))
	denied("another command", call(bad, ask(good), yes))
	denied("another directory", call(args{"command": "echo good", "network": true, "working_dir": "/usr"}, ask(good), yes))
	denied("no ticket of ours", call(good, "made-up", yes))
	denied("no answer", call(good, ask(good), nil))
	denied("an answer to something else", call(good, ask(good), mcp.InputResponseMap{"other": yes[answerName]}))
	denied("no such action", call(good, ask(good), mcp.InputResponseMap{answerName: &mcp.ElicitResult{Action: "Accept"}}))
	if res := call(good, "", yes); !res.NeedsInput() {
		t.Errorf("an answer without a ticket: %q", text(res))
	}
	first := ask(good)
	for range maxTickets {
		ask(good)
	}
	denied("a ticket that was forgotten", call(good, first, yes))
}

// TestCancel: a call that is given up ends with all that it started, and others go on.
func TestCancel(t *testing.T) {
	p := newPlace(t)
	for i, version := range versions {
		c := p.connect(version, nil)
		word, file := fmt.Sprintf("100%d.5", i), fmt.Sprintf("begun%d", i)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.try(ctx, args{"command": "sleep " + word + " & setsid sleep " + word + " & touch ~/playground/" + file + "; wait"})
			ended <- err
		}()
		await(t, p.playground(file))
		testenv.Eventually(t, "the control: something runs", func() bool { return running(word) })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
		testenv.Eventually(t, version+": nothing of the command runs", func() bool { return !running(word) })
		if got := c.sh("echo after"); got != "after\n" {
			t.Errorf("%s: %q", version, got)
		}
		c.close()
	}
	if got := p.sessions(); len(got) != 0 {
		t.Errorf("sessions: %q", got)
	}
}

// TestDisconnect: with the client all commands end, whichever way it goes.
func TestDisconnect(t *testing.T) {
	p := newPlace(t)
	for name, end := range map[string]func(r *raw){
		"gone":  func(r *raw) { _, _ = r.out.Close(), r.in.Close() },
		"grace": func(r *raw) { _ = r.in.Close() }, // its standard output is held open by somebody
		"term":  func(r *raw) { _ = r.cmd.Process.Signal(syscall.SIGTERM) },
		"int":   func(r *raw) { _ = r.cmd.Process.Signal(syscall.SIGINT) },
		"kill":  func(r *raw) { _ = r.cmd.Process.Kill() },
	} {
		cmd := p.command()
		if name == "grace" {
			cmd.Env = append(cmd.Env, "NSRUN_TEST_GRACE=1ms")
		}
		r := rawOf(t, cmd)
		r.hello()
		word := "2000.5"
		for i := range 3 {
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"touch ~/playground/%s%d; sleep %s & sleep %s"}}}`, i, name, i, word, word))
		}
		for i := range 3 {
			await(t, p.playground(fmt.Sprint(name, i)))
		}
		testenv.Eventually(t, "the control: something runs", func() bool { return running(word) })
		end(r)
		for range r.lines {
		}
		err := r.cmd.Wait()
		code := r.cmd.ProcessState.ExitCode()
		want := map[string]int{"kill": -1, "grace": exitFailed}[name]
		said := map[string]string{"grace": "nsrun: mcp: " + errGrace.Error() + "\n"}[name]
		if code != want || r.stderr.String() != said {
			t.Errorf("%s: the server ended with %v, standard error %q", name, err, r.stderr.String())
		}
		testenv.Eventually(t, name+": nothing of the commands runs", func() bool { return !running(word) })
		if left := p.sessions(); name != "kill" && len(left) != 0 {
			t.Errorf("%s: sessions: %q", name, left)
		}
		for _, s := range p.sessions() { // what a killed server leaves nsrun ls shows
			for _, err := range overlay.Clean(filepath.Dir(s), overlay.CleanOptions{Sessions: []string{filepath.Base(s)}}) {
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestClientThatDoesNotRead: what cannot be written ends nothing but that.
func TestClientThatDoesNotRead(t *testing.T) {
	p := newPlace(t)
	cmd := p.command("--max-output", "1M")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"p"},"name":"run_command","arguments":{"command":"seq 100000; touch ~/playground/seq"}}}`,
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	await(t, p.playground("seq"))
	_ = in.Close()
	_ = out.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAtOnce: each command waits for all the others.
func TestAtOnce(t *testing.T) {
	p := newPlace(t)
	const n = 8
	for _, policy := range []string{"--commit", "--discard"} {
		c := p.connect("", nil, policy)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				command := fmt.Sprintf("cd ~/playground && touch %s%d && while [ $(ls | grep -c -e '^%s') -lt %d ]; do sleep 0.01; done; echo %d >%s", policy, i, policy, n, i, p.at(fmt.Sprint("p/", i)))
				res, err := c.try(t.Context(), args{"command": strings.Replace(command, "touch -", "touch ./-", 1)})
				if err != nil || res.IsError || text(res) != noOutput {
					t.Errorf("%v, %+v", err, res)
				}
			})
		}
		wg.Wait()
		c.close()
	}
	for i := range n {
		if got, want := p.content(fmt.Sprint("p/", i)), fmt.Sprintln(i); got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
}

func TestProgress(t *testing.T) {
	p := newPlace(t)
	for _, version := range versions {
		var mu sync.Mutex
		var said strings.Builder
		var last float64
		told := make(chan struct{}, 100)
		c := p.connect(version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if req.Params.ProgressToken != "token" || req.Params.Progress <= last {
				t.Errorf("%s: %+v after %v", version, req.Params, last)
			}
			last = req.Params.Progress
			said.WriteString(req.Params.Message)
			told <- struct{}{}
		}})
		params := &mcp.CallToolParams{Name: toolName, Arguments: args{"command": `printf 'one\033\n'; until [ -e ~/playground/go ]; do sleep 0.01; done; echo two`}}
		params.SetProgressToken("token")
		done := make(chan *mcp.CallToolResult)
		go func() {
			res, err := c.CallTool(t.Context(), params)
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		<-told // while it runs
		mu.Lock()
		if got := said.String(); got != "one\\x1b\n" {
			t.Errorf("%s: %q", version, got)
		}
		mu.Unlock()
		if err := os.WriteFile(p.playground("go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if res := <-done; text(res) != "one\\x1b\ntwo\n" {
			t.Errorf("%s: %+v", version, res)
		}
		if err := os.Remove(p.playground("go")); err != nil {
			t.Fatal(err)
		}
		c.close()
	}
}

// TestHostileClient: what makes no sense is answered by an error, and the next call is
// answered as ever.
func TestHostileClient(t *testing.T) {
	p := newPlace(t)
	r := p.raw()
	r.hello()
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_command","arguments":` + arguments + `}}`
	}
	long := strings.Repeat("x", 1<<20)
	for what, c := range map[string]struct{ line, want string }{
		"NUL":                 {call(`{"command":"echo a\u0000b"}`), "has the character NUL in it"},
		"a long command":      {call(`{"command":"` + long + `"}`), "has 1048576 bytes, the kernel takes at most 131071"},
		"a long directory":    {call(`{"command":"pwd","working_dir":"/` + strings.Repeat("x", 100000) + `"}`), "ERROR: "},
		"a long name":         {call(`{"` + long + `":1}`), "there is no parameter"},
		"another parameter":   {call(`{"command":"true","net":true}`), "There is no parameter net"},
		"another case":        {call(`{"command":"true","Network":true}`), "There is no parameter Network"},
		"a number":            {call(`{"command":1}`), "Parameter command must be a string"},
		"a string":            {call(`{"command":"true","network":"true"}`), "Parameter network must be a boolean"},
		"a list":              {call(`["true"]`), "The arguments are not an object"},
		"nothing":             {call(`null`), "no command was given"},
		"an empty command":    {call(`{"command":""}`), "no command was given"},
		"no arguments":        {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_command"}}`, "no command was given"},
		"no such tool":        {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"other","arguments":{}}}`, "error"},
		"no name":             {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}`, "error"},
		"no params":           {`{"jsonrpc":"2.0","id":"x","method":"tools/call"}`, "error"},
		"params of any kind":  {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":7}`, "error"},
		"no such method":      {`{"jsonrpc":"2.0","id":"x","method":"nothing/such"}`, "error"},
		"a second handshake":  {`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{}}`, "error"},
		"half a surrogate":    {call(`{"command":"echo \ud800"}`), "result"},
		"a token of any kind": {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"progressToken":{"a":[1]}},"name":"run_command","arguments":{"command":"echo a"}}}`, `"`},
		"answers to nothing":  {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_command","arguments":{"command":"true","network":true},"requestState":"x","inputResponses":{"network":{"action":"accept"}}}}`, "was denied"},
	} {
		r.send(c.line)
		if got := r.answer(`"x"`); !strings.Contains(strings.ToLower(got), strings.ToLower(c.want)) {
			t.Errorf("%s: %.300s, want %q", what, got, c.want)
		}
		r.send(`{"jsonrpc":"2.0","id":99999,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`)
		r.send(`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo after"}}}`)
		if got := r.answer(`"y"`); !strings.Contains(got, `after\n`) {
			t.Errorf("after %s: %s", what, got)
		}
	}
	if r.stderr.String() != "" {
		t.Errorf("the server said %q", r.stderr.String())
	}
}

// TestNoMessage: a line that is not a message is answered by an error, and the next one as ever.
func TestNoMessage(t *testing.T) {
	p := newPlace(t)
	const parse, invalid = -32700, -32600
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	call := func(word string) string {
		return `{"jsonrpc":"2.0","id":"` + word + `","method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo ` + word + `"}}}`
	}
	for _, c := range []struct {
		name, version, line, id string
		code                    int
	}{
		{"words", "", "this is not JSON", "null", parse},
		{"half a message", "", `{"jsonrpc":"2.0","id":1,`, "null", parse},
		{"two messages", "", ping("1") + ping("2"), "null", parse},
		{"zero bytes", "", "\x00\x00", "null", parse},
		{"much nesting", "", strings.Repeat("[", 1<<20), "null", parse},
		{"a long line", "", `{"jsonrpc":"2.0","id":"x","method":"` + strings.Repeat("x", lineMost) + `"}`, "null", parse},
		{"a number", "", `7`, "null", invalid},
		{"null", "", `null`, "null", invalid},
		{"no version", "", `{"id":"x","method":"ping"}`, `"x"`, invalid},
		{"another version", "", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, `7`, invalid},
		{"a method of another type", "", `{"jsonrpc":"2.0","id":7,"method":{}}`, `7`, invalid},
		{"an id of another type", "", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", invalid},
		{"an answer without an id", "", `{"jsonrpc":"2.0","result":{}}`, "null", invalid},
		{"an answer of another kind", "", `{"id":7,"result":{}}`, "null", invalid},
		{"an empty batch", "2025-03-26", "[]", "null", invalid},
		{"a batch of numbers", "2025-03-26", "[1]", "null", invalid},
		{"a batch of a batch", "2025-03-26", "[[]]", "null", invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := place{t, p.dir}
			r := p.raw()
			r.helloIn(cmp.Or(c.version, "2025-06-18"))
			r.send("", "\r", c.line)
			var got struct{ Error struct{ Code int } }
			if line := r.answer(c.id); json.Unmarshal([]byte(line), &got) != nil || got.Error.Code != c.code {
				t.Errorf("%s, want the code %d", line, c.code)
			}
			r.send(call("after") + "\r")
			if got := r.answer(`"after"`); !strings.Contains(got, `after\n`) {
				t.Error(got)
			}
			_ = r.in.Close()
			for line := range r.lines {
				t.Errorf("unexpected line %s", line)
			}
			if err := r.cmd.Wait(); err != nil || r.stderr.String() != "" {
				t.Errorf("the server ended with %v, standard error %q", err, r.stderr.String())
			}
		})
	}
}

// TestBatch: batches are taken apart, whatever is in them, and however often.
func TestBatch(t *testing.T) {
	const note, ping = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	for _, version := range []string{"2025-03-26", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			r := newPlace(t).raw()
			r.helloIn(version)
			for i := range 3 {
				r.send("["+note+"]", fmt.Sprintf("["+note+","+ping+",7,"+ping+"]", 10*i, 10*i+1))
				want := map[string]bool{fmt.Sprint(10 * i): true, fmt.Sprint(10*i + 1): true, "null": true}
				for range len(want) {
					var got struct{ ID json.RawMessage }
					if line := <-r.lines; json.Unmarshal([]byte(line), &got) != nil || !want[string(got.ID)] {
						t.Fatal(line)
					}
					delete(want, string(got.ID))
				}
			}
		})
	}
}

// TestFlood: what a client writes without an end, and without reading, takes no memory; its
// end is seen.
func TestFlood(t *testing.T) {
	p := newPlace(t)
	r := p.raw()
	r.hello()
	for range 400 {
		if _, err := io.WriteString(r.in, strings.Repeat("[", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if _, err := io.WriteString(r.in, strings.Repeat("x\n", 10<<10)); err != nil {
			t.Fatal(err)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var most int // KiB
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &most); err != nil || most > 320<<10 {
		t.Errorf("it took %d KiB, %v", most, err)
	}
	_ = r.in.Close()
	for range r.lines {
	}
	if err := r.cmd.Wait(); err != nil || r.stderr.String() != "" {
		t.Errorf("the server ended with %v, standard error %.500q", err, r.stderr.String())
	}
}

// TestStart: a mistake in the flags is reported before anything is served.
func TestStart(t *testing.T) {
	p := newPlace(t, "file: x")
	for _, c := range []struct{ line, want string }{
		{"--project /none", "nsrun: mcp: use as project /none: no such file or directory\n"},
		{"--rw /none", "nsrun: mcp: --rw /none: no such path\n"},
		{"--project " + p.at("p/file"), "nsrun: mcp: use as project " + p.at("p/file") + ": not a directory\n"},
		{"--project /", "nsrun: mcp: the project would be /, which contains nsrun's state directory (try: --project DIR)\n"},
		{"--rw " + p.at("home"), "nsrun: mcp: --rw " + p.at("home") + ": " + p.at("home") + " would be writable, and so would nsrun's directory " + p.at("home/.local/state/nsrun") + "\n"},
		{"--project " + p.at("home"), "nsrun: mcp: the project would be " + p.at("home") + ", which contains nsrun's state directory (try: --project DIR)\n"},
		{"--bogus", "nsrun: mcp: flag provided but not defined: -bogus\n"},
		{"word", "nsrun: mcp: takes no arguments: the agent's program sends the commands\n"},
	} {
		out, err := p.command(strings.Fields(c.line)...).CombinedOutput()
		if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.ExitCode() != exitFailed || string(out) != c.want {
			t.Errorf("%s: %v, %q, want %q", c.line, err, out, c.want)
		}
	}
}

// TestInstalled drives the two programs as they are built and installed, by way of nsrun.
func TestInstalled(t *testing.T) {
	testenv.NeedCheckout(t)
	p := newPlace(t)
	build := func(to, pkg string) {
		t.Helper()
		c := exec.Command("go", "build", "-o", p.at(to), "github.com/nsrun/nsrun/cmd/"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	build("prefix/bin/nsrun", "nsrun")
	build("prefix/libexec/nsrun/nsrun-mcp", "nsrun-mcp")
	nsrun := func() *exec.Cmd {
		c := p.command()
		c.Path, c.Args = p.at("prefix/bin/nsrun"), []string{"nsrun", "mcp", "--project", p.at("p")}
		c.Env = append(c.Env, "GOMEMLIMIT=32GiB")
		return c
	}
	check := func(how string) {
		t.Helper()
		c := connect(t, nsrun(), "", nil)
		// The command has it, the server's own runtime has not.
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.cmd.Process.Pid))
		own := strings.Contains("\x00"+string(environ), "\x00GOMEMLIMIT=")
		if got := c.sh("printenv GOMEMLIMIT"); err != nil || got != "32GiB\n" || own {
			t.Errorf("%s: GOMEMLIMIT=%q, of the server: %v (%v)", how, got, own, err)
		}
		if got := c.sh("echo " + how + " >f; pwd"); got != p.at("p")+"\n" || p.content("p/f") != how+"\n" {
			t.Errorf("%s: %q, %q", how, got, p.content("p/f"))
		}
		c.close()
	}
	check("libexec")
	if err := os.Rename(p.at("prefix/libexec/nsrun/nsrun-mcp"), p.at("prefix/bin/nsrun-mcp")); err != nil {
		t.Fatal(err)
	}
	check("beside")
	if err := os.Remove(p.at("prefix/bin/nsrun-mcp")); err != nil {
		t.Fatal(err)
	}
	out, err := nsrun().CombinedOutput()
	if !strings.HasPrefix(string(out), "nsrun: mcp: nsrun-mcp is not installed beside ") || !strings.Contains(string(out), "(try: go install ") || err == nil {
		t.Errorf("without it: %q, %v", out, err)
	}
}

// TestUnsandboxed: without a sandbox, each result says so, and so do the tool's description and the log.
func TestUnsandboxed(t *testing.T) {
	for _, c := range []struct {
		name, file string
		args       []string
		none       bool // there are no namespaces
		want       string
	}{
		{"disabled", "", []string{"--sandbox", "disabled"}, false, "it is disabled"},
		{"preferred", "[sandbox]\nmode = 'preferred'\nbackend = 'native'\n", nil, true, "this machine has no user namespaces: no space left on device"},
		{"preferred, and there is one", "", []string{"--sandbox", "preferred"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, "../home/.config/nsrun/")
			if err := os.WriteFile(p.at("home/.config/nsrun/config.toml"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := p.command(append(c.args, "--discard")...)
			if c.none {
				testenv.WithoutNamespaces(cmd)
			}
			conn := connect(t, cmd, "", nil)
			list, err := conn.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			res := conn.call(args{"command": "echo x >new"})
			r := structured(t, res)
			open := c.want != ""
			if r.Unsandboxed != c.want || strings.HasPrefix(text(res), "NO SANDBOX: ") != open || strings.Contains(list.Tools[0].Description, "NO SANDBOX") != open || (p.content("p/new") == "x\n") != open {
				t.Errorf("%q, %q, %+v, %s", text(res), p.content("p/new"), r, list.Tools[0].Description)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if log := conn.stderr.String(); strings.Contains(log, "NO SANDBOX: "+c.want+": echo x") != open || (log == "") == open {
				t.Errorf("log: %s", log)
			}
		})
	}
	// What commands cannot have without a sandbox.
	p := newPlace(t)
	cmd := p.command("--sandbox", "none")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the values are required, preferred and disabled") {
		t.Errorf("%v: %s", err, out)
	}
}
