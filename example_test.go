//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// A command works in a project, and nothing that it writes is there before the commit.
func Example() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	r := nsrun.NewRunner(nsrun.Config{Project: dir})
	defer r.Close()
	res, err := r.Run(ctx, nsrun.Request{Command: "echo hello >greeting; cat greeting"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res)          // what a model reads
	fmt.Print(res.Report()) // what a person reviews

	_, err = os.Stat(filepath.Join(dir, "greeting"))
	fmt.Println("in the project:", err == nil)
	if err := r.Commit(ctx, overlay.CommitOptions{}); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "greeting"))
	fmt.Println("in the project:", err == nil)
	// Output:
	// hello
	// A greeting
	// in the project: false
	// in the project: true
}

func ExampleRunner_Run() {
	r := nsrun.NewRunner(nsrun.Config{Timeout: time.Minute})
	defer r.Close()

	// Without a project the host's files are read-only, and nothing that is written stays.
	res, err := r.Run(context.Background(), nsrun.Request{Command: "echo ok >/tmp/file; cat /tmp/file; test -w /usr"})
	if err != nil {
		log.Fatal(err) // the command was not run
	}
	fmt.Print(res)
	// Output:
	// ok
	// exit code: 1
}

// The command's output is written to standard output as it comes.
func ExampleRunner_Start() {
	r := nsrun.NewRunner(nsrun.Config{})
	defer r.Close()

	x, err := r.Start(context.Background(), nsrun.Request{
		Args:   []string{"seq", "3"},
		Stdout: os.Stdout,
	})
	if err != nil {
		log.Fatal(err)
	}
	res, err := x.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit code", res.ExitCode)
	// Output:
	// 1
	// 2
	// 3
	// exit code 0
}

// With Keep, commands share a session until it is committed or discarded.
func ExampleRunner_Discard() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("draft\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	r := nsrun.NewRunner(nsrun.Config{Project: dir, After: nsrun.Keep})
	defer r.Close()
	run := func(command string) {
		res, err := r.Run(context.Background(), nsrun.Request{Command: command})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(res)
	}
	run("echo final >notes")
	run("cat notes")
	if err := r.Discard(context.Background()); err != nil {
		log.Fatal(err)
	}
	run("cat notes")
	// Output:
	// final
	// draft
}

// Some changes of the session are committed, and the rest is thrown away.
func ExampleRunner_Commit() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	r := nsrun.NewRunner(nsrun.Config{Project: dir})
	defer r.Close()
	res, err := r.Run(ctx, nsrun.Request{Command: "mkdir src; touch src/main.go debug.log"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res.Report())

	if err := r.Commit(ctx, overlay.CommitOptions{Exclude: []string{"*.log"}}); err != nil {
		log.Fatal(err)
	}
	if err := r.Discard(ctx); err != nil {
		log.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		fmt.Println("in the project:", filepath.Base(name))
	}
	// Output:
	// A debug.log
	// A src/
	// A src/main.go
	// in the project: src
}

// View says what a command would see and be allowed, and runs nothing.
func ExampleRunner_View() {
	r := nsrun.NewRunner(nsrun.Config{Net: netpolicy.MustParse("example.org:443")})
	defer r.Close()

	v, err := r.View(context.Background(), nsrun.Request{Args: []string{"make", "test"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Command, v.Network, v.Rules)
	// Output: [make test] rules [example.org:443]
}

// Each command has a minute, is committed when it has ended, and cannot see the project's
// keys.
func ExampleConfig() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	keys := filepath.Join(dir, "keys.pem")
	if err := os.WriteFile(keys, []byte("secret\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	r := nsrun.NewRunner(nsrun.Config{
		Project: dir,
		After:   nsrun.Commit,
		Rules:   []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: keys}},
		Env:     []string{"CI=true"},
		Timeout: time.Minute,
	})
	defer r.Close()
	res, err := r.Run(context.Background(), nsrun.Request{Command: "echo CI is $CI | tee log; cat keys.pem"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res.Stdout)
	fmt.Println("exit code", res.ExitCode)
	fmt.Print(res.State, ": ", res.Report())
	// Output:
	// CI is true
	// exit code 1
	// committed: A log
}

// Commands reach what the rules name, and the Result tells what they were refused.
func ExampleConfig_network() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}

	r := nsrun.NewRunner(nsrun.Config{Net: netpolicy.MustParse("tcp:127.0.0.1:" + port)})
	defer r.Close()
	fetch := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%s; printf 'GET / HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3`, port)
	for _, command := range []string{fetch, "exec 3<>/dev/tcp/192.0.2.1/443"} {
		res, err := r.Run(context.Background(), nsrun.Request{Args: []string{"bash", "-c", command}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(res.Stdout)
		for _, d := range res.Network.Denied() {
			fmt.Println("denied:", nsrun.TargetText(d))
		}
	}
	// Output:
	// hello
	// denied: tcp 192.0.2.1:443
}

// Other folders can be shared beside the project.
func ExampleFolder() {
	dir, err := os.MkdirTemp("", "folders-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	if err := errors.Join(os.Mkdir(src, 0o755), os.Mkdir(out, 0o755)); err != nil {
		log.Fatal(err)
	}

	r := nsrun.NewRunner(nsrun.Config{
		Project: src,
		Mode:    nsrun.ReadOnly,
		Shared:  []nsrun.Folder{{Path: out, Mode: nsrun.Direct}},
	})
	defer r.Close()
	if _, err := r.Run(context.Background(), nsrun.Request{Command: "test -w . || touch ../out/program"}); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(out, "program"))
	fmt.Println("written:", err == nil)
	// Output:
	// written: true
}

// approver answers every question with no, and says what was asked.
type approver struct{}

func (approver) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	fmt.Println(q)
	return nsrun.Deny, nil
}

func ExampleApprover() {
	r := nsrun.NewRunner(nsrun.Config{Approver: approver{}})
	defer r.Close()
	_, err := r.Run(context.Background(), nsrun.Request{Command: "git push", Network: true})
	if denied, ok := errors.AsType[*nsrun.DeniedError](err); ok {
		fmt.Println(denied)
	}
	// Output:
	// Run command with network access: git push?
	// network access was denied: the command was not run
}

// allowing is an Approver that asks nobody.
type allowing struct{}

func (allowing) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	fmt.Println(q.Action, filepath.Base(q.Target))
	return nsrun.AllowSession, nil // the Runner does not ask about this path again
}

// A command is refused a file. The user is asked, and the command is run again.
func ExampleRefusal_PathRule() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "accounts")
	if err := os.WriteFile(file, []byte("42\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	r := nsrun.NewRunner(nsrun.Config{Project: dir, Approver: allowing{}, Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: file}}})
	defer r.Close()

	q := nsrun.Request{Command: "cat accounts"}
	res, err := r.Run(context.Background(), q)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.ExitCode)
	for _, refusal := range res.Refusals {
		if rule, ok := refusal.PathRule(); ok {
			q.Paths = append(q.Paths, rule)
		}
	}
	if res, err = r.Run(context.Background(), q); err != nil {
		log.Fatal(err)
	}
	fmt.Print(res)
	// Output:
	// 1
	// show accounts
	// 42
}

// What a command writes is seen while it runs.
func ExampleExecution_Events() {
	dir, err := os.MkdirTemp("", "project-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	r := nsrun.NewRunner(nsrun.Config{Project: dir, Watch: true, After: nsrun.Discard})
	defer r.Close()
	x, err := r.Start(context.Background(), nsrun.Request{Command: "mkdir -p build/bin"})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range x.Events() {
			if err != nil {
				log.Print(err)
				continue
			}
			if ev.Op == fanotify.Created {
				fmt.Println(ev.Path)
			}
		}
	}()
	if _, err := x.Wait(); err != nil {
		log.Fatal(err)
	}
	<-done
	// Output:
	// build
	// build/bin
}

// A Registry keeps a log of what commands did to the project.
func ExampleRegistry() {
	dir, err := os.MkdirTemp("", "registry-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	src := filepath.Join(dir, "src")
	if err := os.Mkdir(src, 0o755); err != nil {
		log.Fatal(err)
	}

	registry := project.Open(project.Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")})
	defer registry.Close()
	r := nsrun.NewRunner(nsrun.Config{Project: src, After: nsrun.Commit, Recorder: nsrun.Registry{Registry: registry}})
	defer r.Close()
	if _, err := r.Run(context.Background(), nsrun.Request{Args: []string{"touch", "file"}}); err != nil {
		log.Fatal(err)
	}
	for e, err := range registry.Executions(project.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Command, e.State)
		for _, c := range e.Changes {
			fmt.Println(c.Kind, c.Path)
		}
	}
	// Output:
	// [touch file] committed
	// added file
}

// A Spec is a sandbox for single commands, without sessions and approval.
func ExampleSpec_Command() {
	spec := nsrun.Spec{
		Mounts:   append(nsrun.DefaultMounts(), mounts.Tmpfs("/mnt")),
		Hostname: "sandbox",
		Dir:      "/mnt",
	}
	out, err := spec.Command("sh", "-c", "uname -n; touch file && ls").Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", out)
	// Output:
	// sandbox
	// file
}

// A mistake of the sandbox's is an *nsexec.Error; a command that exits badly is an
// *exec.ExitError, as with os/exec.
func ExampleSpec_CommandContext() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := nsrun.Spec{}.CommandContext(ctx, "/bin/true").Run() // the zero Spec shows no file
	if e, ok := errors.AsType[*nsexec.Error](err); ok {
		fmt.Println(e.Op, e.Path)
	}
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output:
	// exec /bin/true
	// true
}

func ExampleSafeEnv() {
	for _, kv := range nsrun.SafeEnv([]string{"LANG=C.UTF-8", "AWS_SECRET_ACCESS_KEY=x", "EDITOR=vi"}) {
		fmt.Println(kv)
	}
	// Output:
	// LANG=C.UTF-8
	// EDITOR=vi
}

// What commands leave in $HOME/playground stays there until it is emptied.
func ExampleCleanPlayground() {
	dir, err := os.MkdirTemp("", "playground-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	r := nsrun.NewRunner(nsrun.Config{Playground: dir})
	defer r.Close()
	if _, err := r.Run(context.Background(), nsrun.Request{Command: "touch notes", WorkingDir: "playground"}); err != nil {
		log.Fatal(err)
	}
	usage, err := nsrun.CleanPlayground(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("files removed:", usage.Files)
	// Output: files removed: 1
}

// Presets combine: this one is for a command that fetches Python packages and sees little of the host.
func ExampleParsePreset() {
	pypi, err := nsrun.ParsePreset("pypi")
	if err != nil {
		log.Fatal(err)
	}
	config := nsrun.Config{Presets: []nsrun.Preset{nsrun.StrictPreset, pypi}}
	for _, p := range config.Presets {
		fmt.Println(p, p.Rules())
	}
	// Output:
	// strict []
	// pypi [tcp:pypi.org:443 tcp:files.pythonhosted.org:443]
}

// A program that cannot do without a sandbox says why there is none, and what to do.
func ExampleCheck() {
	if a := nsrun.Check(); a.Status == nsrun.NotSupported {
		log.Fatalf("no sandbox: %s (%s)", a.Reason, a.Remedy)
	}
	fmt.Println("commands can be run")
	// Output:
	// commands can be run
}

// A program's own setting names the mode as configuration files do. With preferred, commands
// run without a sandbox only where none can be had, and the result says so.
func ExampleParseSandboxMode() {
	mode, err := nsrun.ParseSandboxMode("preferred")
	if err != nil {
		log.Fatal(err)
	}
	c := nsrun.Config{Sandbox: mode}
	fmt.Println(c.Sandbox, c.Sandbox == nsrun.SandboxPreferred)
	// Output: preferred true
}

// The names are the values of the key home in configuration files. With layer, the next command of the project finds
// the caches of build tools filled, and nothing outside of sandboxes sees them.
func ExampleParseHome() {
	mode, err := nsrun.ParseHome("layer")
	if err != nil {
		log.Fatal(err)
	}
	c := nsrun.Config{Project: "/home/me/src", Home: mode}
	fmt.Println(c.Home, c.Home == nsrun.HomeLayer)
	// Output: layer true
}

// A program's own setting names the backend as configuration files do. With native, commands run nowhere that refuses
// namespaces.
func ExampleParseBackend() {
	backend, err := nsrun.ParseBackend("native")
	if err != nil {
		log.Fatal(err)
	}
	c := nsrun.Config{Backend: backend}
	fmt.Println(c.Backend, c.Backend == nsrun.NativeBackend)
	// Output: native true
}

// A command reads a file of the host that it does not see: what it needs is a rule for that file.
func ExampleLearn() {
	dir, err := os.MkdirTemp("", "nsrun-example-") // commands have a /tmp of their own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	lesson, err := nsrun.Learn(context.Background(), nsrun.Config{}, nsrun.Request{Args: []string{"cat", file}}, nsrun.LearnOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, need := range lesson.Needs {
		fmt.Println(need.Kind, need.Target == file, need.Program)
	}
	// Output: read true cat
}
