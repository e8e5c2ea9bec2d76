// Embedder imports everything that there is to import, and prints what it cannot do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

func main() {
	failed := false
	check := func(what string, err error) {
		fmt.Printf("%s: %v\n", what, err)
		failed = failed || !errors.Is(err, errors.ErrUnsupported)
	}
	ctx := context.Background()
	dir := os.TempDir()

	// What starts something.
	_, err := nsrun.NewRunner(nsrun.Config{Project: dir}).Run(ctx, nsrun.Request{Command: "true"})
	check("Runner.Run", err)
	spec := nsrun.Spec{Mounts: mounts.Plan{mounts.ROBind("/", "/"), mounts.Tmpfs("/tmp").WithSize(1 << 20)}}
	cmd := spec.Command("true")
	cmd.Stdout = os.Stdout
	check("Spec.Command", cmd.Run())
	check("nsexec.Command", nsexec.Command("true").Start())
	_, err = overlay.Create(overlay.Options{Roots: []string{dir}})
	check("overlay.Create", err)
	_, err = overlay.Open(dir, "session")
	check("overlay.Open", err)
	n := 0
	for _, err := range overlay.List(dir) {
		check("overlay.List", err)
		n++
	}
	failed = failed || n != 1
	_, err = fanotify.New(fanotify.Options{Roots: []string{dir}})
	check("fanotify.New", err)
	_, err = broker.New(broker.Options{})
	check("broker.New", err)
	_, err = cgroup.Load()
	check("cgroup.Load", err)
	check("project.Registry", project.Open(project.Options{}).Scan(ctx, dir))
	for _, f := range features.Probe() {
		check("features.Probe", f.Err())
	}

	// What is plain data is what it is on Linux.
	if err := spec.Mounts.Validate(); err != nil {
		fmt.Println(err)
		failed = true
	}
	if err := (mounts.Plan{mounts.Bind("relative", "/")}).Validate(); !errors.Is(err, mounts.ErrNotAbsolute) {
		fmt.Println(err)
		failed = true
	}
	p, err := netpolicy.ParsePolicy("*.example.org:443")
	if err == nil {
		_, err = netpolicy.NewTable(p)
	}
	if err != nil {
		fmt.Println(err)
		failed = true
	}
	if s := (overlay.Change{Kind: overlay.Added, Path: "file"}).String(); s != "A file" {
		fmt.Println(s)
		failed = true
	}
	if s := nsrun.ErrorText(errors.New("no")); s != "ERROR: No" {
		fmt.Println(s)
		failed = true
	}
	if failed {
		os.Exit(1)
	}
}
