// Against runs one of the other benchmarks in this module and in an older checkout of it, in turns, and prints for each
// of its lines both medians and their ratio. It imports nothing of the module: each checkout measures itself.
//
//	go run ./bench/against -old DIR [-rounds N] compare|runner|sessions|network [flags of that benchmark]
//
// A round is one run of each, the older one first in every second round. A ratio is the median of the rounds' ratios,
// so that other load on the machine affects both; above 1 is slower. The lines of programs that are the same in both,
// such as true and bwrap, show how far the others can be trusted. Few runs in many rounds are more precise than many
// runs in few.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	old    = flag.String("old", "", "the older `checkout`")
	rounds = flag.Int("rounds", 20, "how many `rounds`")
)

// takesNsrun are the benchmarks that take the path of a binary, and otherwise build one each time.
var takesNsrun = []string{"compare", "sessions"}

func main() {
	flag.Parse()
	if *old == "" || flag.NArg() == 0 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := against(os.Stdout, *old, *rounds, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "against:", err)
		os.Exit(1)
	}
}

// against measures, and prints the result.
func against(w io.Writer, old string, rounds int, bench string, args []string) error {
	dir, err := os.MkdirTemp("", "nsrun-against")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // benchmarks run as an ordinary user, too
		return err
	}
	var sides [2]*exec.Cmd
	for i, checkout := range [...]string{old, "."} {
		if sides[i], err = build(filepath.Join(dir, strconv.Itoa(i)), checkout, bench, args); err != nil {
			return err
		}
	}
	var t table
	for round := range rounds {
		for k := range sides {
			i := (k + round) % len(sides)
			cmd := *sides[i]
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
			}
			t.add(i, string(out))
		}
	}
	t.print(w, rounds)
	return nil
}

// build builds a benchmark, and what it measures, in a checkout. It returns what runs it.
func build(dir, checkout, bench string, args []string) (*exec.Cmd, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	compile := func(name string, flags ...string) (string, error) {
		written, to := filepath.Join(dir, "built"), filepath.Join(dir, filepath.Base(name))
		cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", written}, flags...), "./"+name)...)
		cmd.Dir, cmd.Env, cmd.Stderr = checkout, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("build %s in %s: %w", name, checkout, err)
		}
		// A file that the linker wrote starts more slowly than a copy of it.
		b, err := os.ReadFile(written)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		return to, err
	}
	program, err := compile("bench/" + bench)
	if err != nil {
		return nil, err
	}
	if slices.Contains(takesNsrun, bench) {
		nsrun, err := compile("cmd/nsrun", "-ldflags=-s -w -E nsrun_early") // as the Makefile does it
		if err != nil {
			return nil, err
		}
		args = append([]string{"-nsrun", nsrun}, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = checkout
	return cmd, nil
}

// A row is one line of a benchmark in all rounds.
type row struct {
	title, name, unit string
	values            [2][]float64
}

// A table has all rows, in the order in which they came.
type table struct{ rows []*row }

// measured is a line with a value: what was measured, how much, in which unit.
var measured = regexp.MustCompile(`^  (\S.*?)\s+(\d+(?:\.\d+)?) ?(ms|µs|KiB|MB/s|GB/s|requests/s|/s)(?:\s|$)`)

// add takes the output of one run.
func (t *table) add(side int, out string) {
	title := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "  ") {
			title = line
			continue
		}
		m := measured.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			continue
		}
		name := strings.Join(strings.Fields(m[1]), " ")
		i := slices.IndexFunc(t.rows, func(r *row) bool { return r.title == title && r.name == name })
		if i < 0 {
			i = len(t.rows)
			t.rows = append(t.rows, &row{title: title, name: name, unit: m[3]})
		}
		t.rows[i].values[side] = append(t.rows[i].values[side], value)
	}
}

// ratio is the median of what the newer one takes of the older one's time. Not ok: not both measured it each time.
func (r *row) ratio() (ratio float64, ok bool) {
	var list []float64
	for i := range min(len(r.values[0]), len(r.values[1])) {
		before, after := r.values[0][i], r.values[1][i]
		if strings.HasSuffix(r.unit, "/s") {
			before, after = after, before
		}
		if before > 0 {
			list = append(list, after/before)
		}
	}
	return median(list), len(list) > 0 && len(r.values[0]) == len(r.values[1])
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

func (t *table) print(w io.Writer, rounds int) {
	fmt.Fprintf(w, "medians of %d alternating rounds: older, newer, newer to older\n", rounds)
	title := ""
	for _, r := range t.rows {
		if r.title != title {
			title = r.title
			fmt.Fprintln(w, title)
		}
		switch ratio, ok := r.ratio(); {
		case ok:
			fmt.Fprintf(w, "  %-34s %9.3f  %9.3f %-10s %6.3f\n", r.name, median(r.values[0]), median(r.values[1]), r.unit, ratio)
		default:
			fmt.Fprintf(w, "  %-34s is not measured by both\n", r.name)
		}
	}
}
