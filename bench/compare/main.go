//go:build linux

// Compare measures nsrun side by side with bwrap, in turns, and prints medians. Started by root it measures as an
// ordinary user.
//
//	go run ./bench/compare [-n RUNS] [-nsrun FILE] [-bwrap FILE] [-only LETTERS]
//
// What is measured (the letters of -only):
//
//	a  the command line, as a whole process: full isolation
//	b  the library against os/exec with bwrap: full isolation
//	c  the library from a process with 4 GiB of touched heap against a small one
//	d  eight goroutines that start sandboxes at once: how many a second
//	e  the private memory of PID 1 of a sandbox
//	f  500 read-only binds
//	g  2,000 read-only binds
//	h  a host with 300 mounts under `--ro-bind / /`; only when started by root
//	p  `--bind / /` alone
//
// It uses the bwrap that NSRUN_BWRAP names (make sets it to bubblewrap 0.12 where that is available), else the one on
// PATH.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

var (
	runs  = flag.Int("n", 300, "`runs` of each")
	nsrun = flag.String("nsrun", "", "the nsrun `file`; built if empty")
	bwrap = flag.String("bwrap", cmp.Or(os.Getenv("NSRUN_BWRAP"), "bwrap"), "the bwrap `file`")
	only  = flag.String("only", "abcdefghp", "which measurements, as `letters`")
	serve = flag.Int("serve", -1, "for internal use: touch so many GiB and serve runs")
)

// full is the isolation that is compared, as bwrap's options.
var full = []string{"--ro-bind", "/", "/", "--unshare-all", "--dev", "/dev", "--proc", "/proc"}

const nobody = 65534

func main() {
	flag.Parse()
	if *serve >= 0 {
		serveRuns(*serve)
		return
	}
	if os.Getuid() == 0 {
		asUser()
		return
	}
	if *nsrun == "" {
		fail(fmt.Errorf("-nsrun is needed by an ordinary user"))
	}
	if _, err := exec.LookPath(*bwrap); err != nil {
		fail(fmt.Errorf("%w (install the package bubblewrap)", err))
	}
	if *only != "h" {
		version, err := exec.Command(*bwrap, "--version").Output()
		check(err)
		fmt.Printf("medians of %d alternating runs, as uid %d, %d cores, %s", *runs, os.Getuid(), runtime.NumCPU(), version)
	}
	for _, m := range []struct {
		letter string
		run    func()
	}{{"a", wholeProcess}, {"p", plainBind}, {"b", library}, {"c", bigHeap}, {"d", throughput}, {"e", memory}, {"f", manyBinds}, {"g", moreBinds}, {"h", manyMounts}} {
		if strings.Contains(*only, m.letter) {
			m.run()
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "compare:", err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

// asUser builds nsrun where everybody can read it, and runs this program again as an ordinary user.
func asUser() {
	dir, err := os.MkdirTemp("", "nsrun-compare")
	check(err)
	defer os.RemoveAll(dir)
	check(os.Chmod(dir, 0o755))
	self := filepath.Join(dir, "compare")
	b, err := os.ReadFile("/proc/self/exe")
	check(err)
	check(os.WriteFile(self, b, 0o755))
	if *nsrun == "" {
		*nsrun = filepath.Join(dir, "nsrun")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -E nsrun_early", "-o", *nsrun, "github.com/nsrun/nsrun/cmd/nsrun")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile does it
		build.Stderr = os.Stderr
		check(build.Run())
	}
	// Where everybody can execute it.
	if path, err := exec.LookPath(*bwrap); err == nil {
		b, err := os.ReadFile(path)
		check(err)
		*bwrap = filepath.Join(dir, "bwrap")
		check(os.WriteFile(*bwrap, b, 0o755))
	}
	measure := func(letters string) {
		cmd := exec.Command(self, "-n", strconv.Itoa(*runs), "-nsrun", *nsrun, "-bwrap", *bwrap, "-only", letters)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := cmd.Run(); err != nil {
			os.RemoveAll(dir)
			os.Exit(1)
		}
	}
	if letters := strings.ReplaceAll(*only, "h", ""); letters != "" {
		measure(letters)
	}
	if strings.Contains(*only, "h") {
		hostWithMounts(filepath.Join(dir, "mounts"), 300, func() { measure("h") })
	}
	if strings.Contains(*only, "e") {
		memory()
	}
}

// alternate runs the functions in turns and returns the durations of each.
func alternate(n int, fs ...func() error) [][]time.Duration {
	t := make([][]time.Duration, len(fs))
	warm := min(n, 10)
	for i := range n + warm {
		for j, f := range fs {
			begin := time.Now()
			check(f())
			if d := time.Since(begin); i >= warm { // the first ones warm caches
				t[j] = append(t[j], d)
			}
		}
	}
	return t
}

func median(t []time.Duration) time.Duration {
	t = slices.Sorted(slices.Values(t))
	return t[len(t)/2]
}

// show prints medians; ratios are to the last one, which is bwrap.
func show(title string, names []string, t [][]time.Duration) {
	fmt.Println(title)
	base := float64(median(t[len(t)-1]))
	for i, n := range names {
		m := median(t[i])
		sorted := slices.Sorted(slices.Values(t[i]))
		fmt.Printf("  %-34s %8.3f ms   p95 %8.3f   %5.3f\n", n, ms(m), ms(sorted[len(sorted)*95/100]), float64(m)/base)
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func command(name string, args ...string) func() error {
	return func() error { return exec.Command(name, args...).Run() }
}

func sandbox() error {
	c := nsexec.Command("true")
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	return c.Run()
}

func wholeProcess() {
	args := append(slices.Clone(full), "true")
	show("a: whole process, full isolation", []string{"true", "nsrun", "bwrap"},
		alternate(*runs, command("true"), command(*nsrun, args...), command(*bwrap, args...)))
}

func plainBind() {
	args := []string{"--bind", "/", "/", "true"}
	show("p: whole process, --bind / /", []string{"true", "nsrun", "bwrap"},
		alternate(*runs, command("true"), command(*nsrun, args...), command(*bwrap, args...)))
}

func library() {
	t := alternate(*runs, command("true"), sandbox, command(*bwrap, append(slices.Clone(full), "true")...))
	show("b: library, full isolation", []string{"exec.Command(true)", "nsexec", "exec.Command(bwrap)"}, t)
	fmt.Printf("  over exec.Command(true): %.3f ms\n", ms(median(t[1])-median(t[0])))
}

// server is this program as a process with a heap of a given size.
type server struct {
	in  io.Writer
	out *bufio.Reader
}

func startServer(gib int) (*server, *exec.Cmd) {
	cmd := exec.Command("/proc/self/exe", "-serve", strconv.Itoa(gib))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	s := &server{in, bufio.NewReader(out)}
	if _, err := s.out.ReadString('\n'); err != nil {
		fail(err)
	}
	return s, cmd
}

func (s *server) run() time.Duration {
	_, err := io.WriteString(s.in, "\n")
	check(err)
	line, err := s.out.ReadString('\n')
	check(err)
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	check(err)
	return time.Duration(n)
}

func serveRuns(gib int) {
	ballast := make([]byte, gib<<30)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	for {
		if _, err := in.ReadString('\n'); err != nil {
			runtime.KeepAlive(ballast)
			return
		}
		begin := time.Now()
		check(sandbox())
		fmt.Println(int64(time.Since(begin)))
	}
}

func bigHeap() {
	small, cmd1 := startServer(0)
	big, cmd2 := startServer(4)
	t := make([][]time.Duration, 2)
	for i := range *runs + 10 {
		for j, s := range []*server{big, small} {
			if d := s.run(); i >= 10 {
				t[j] = append(t[j], d)
			}
		}
	}
	show("c: library, heap of 4 GiB against a small one", []string{"4 GiB", "small"}, t)
	for _, c := range []*exec.Cmd{cmd1, cmd2} {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func throughput() {
	const workers, each, rounds = 8, 25, 7
	round := func(f func() error) float64 {
		var wg sync.WaitGroup
		var failed atomic.Value
		begin := time.Now()
		for range workers {
			wg.Go(func() {
				for range each {
					if err := f(); err != nil {
						failed.Store(err)
					}
				}
			})
		}
		wg.Wait()
		if err, ok := failed.Load().(error); ok {
			fail(err)
		}
		return workers * each / time.Since(begin).Seconds()
	}
	var ours, theirs []float64
	bw := command(*bwrap, append(slices.Clone(full), "true")...)
	for range rounds {
		ours = append(ours, round(sandbox))
		theirs = append(theirs, round(bw))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	o, t := ours[rounds/2], theirs[rounds/2]
	fmt.Printf("d: %d goroutines at once, medians of %d rounds of %d\n", workers, rounds, workers*each)
	fmt.Printf("  nsexec %.0f/s   bwrap %.0f/s   %.2f times\n", o, t, o/t)
}

// memory is how much of PID 1's memory is shared with nobody. Only root may look
// into it; an ordinary user can only say how much anonymous memory it has at most.
func memory() {
	c := nsexec.Command("sleep", "60")
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	check(c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	name, keys, what := "status", []string{"RssAnon:"}, "e: anonymous memory of PID 1, an upper bound"
	if os.Getuid() == 0 {
		name, keys, what = "smaps_rollup", []string{"Private_Clean:", "Private_Dirty:"}, "e: private memory of PID 1"
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.Process.Pid, name))
	check(err)
	kib := 0
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && slices.Contains(keys, f[0]) {
			n, err := strconv.Atoi(f[1])
			check(err)
			kib += n
		}
	}
	fmt.Printf("%s\n  %d KiB\n", what, kib)
}

// hostWithMounts calls f in a mount namespace with n more mounts.
func hostWithMounts(dir string, n int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		check(syscall.Unshare(syscall.CLONE_NEWNS))
		check(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		for i := range n {
			d := filepath.Join(dir, strconv.Itoa(i))
			check(os.MkdirAll(d, 0o755))
			check(syscall.Mount("none", d, "tmpfs", 0, "size=4096"))
		}
		f()
	}()
	<-done
}

func manyMounts() {
	args := append(slices.Clone(full), "true")
	n := max(10, *runs/10)
	show(fmt.Sprintf("h: a host with 300 mounts, full isolation (%d runs)", n), []string{"nsrun", "bwrap"},
		alternate(n, command(*nsrun, args...), command(*bwrap, args...)))
	args = []string{"--ro-bind", "/", "/", "true"}
	show(fmt.Sprintf("h: a host with 300 mounts, --ro-bind / / alone (%d runs)", n), []string{"nsrun", "bwrap"},
		alternate(n, command(*nsrun, args...), command(*bwrap, args...)))
}

func manyBinds() { binds("f", 500, max(5, *runs/20)) }

func moreBinds() { binds("g", 2000, max(3, *runs/60)) }

func binds(letter string, count, n int) {
	dir, err := os.MkdirTemp("", "binds")
	check(err)
	defer os.RemoveAll(dir)
	args := []string{"--ro-bind", "/", "/", "--tmpfs", "/tmp"}
	for i := range count {
		d := filepath.Join(dir, "d"+strconv.Itoa(i))
		check(os.Mkdir(d, 0o755))
		args = append(args, "--ro-bind", d, d)
	}
	args = append(args, "true")
	show(fmt.Sprintf("%s: %d read-only binds (%d runs)", letter, count, n), []string{"nsrun", "bwrap"},
		alternate(n, command(*nsrun, args...), command(*bwrap, args...)))
}
