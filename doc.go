// Package nsrun runs commands in sandboxes made of plain Linux system calls:
// namespaces, mounts, an overlay over the project.
//
//	spec := nsrun.Spec{Mounts: append(nsrun.DefaultMounts(), mounts.Bind("/home/me/src", "/home/me/src"))}
//	cmd := spec.Command("go", "test", "./...") // fields and methods as in os/exec.Cmd
//	err := cmd.Run()                           // *nsexec.Error: the sandbox; *exec.ExitError: the program
//
// For agents there is Runner: it does session, approval, run and report in one call.
//
//	r := nsrun.NewRunner(nsrun.Config{Project: "/home/me/src"})
//	res, err := r.Run(ctx, nsrun.Request{Command: "make test"})
//	fmt.Println(res) // stdout, stderr, and the exit code if not zero: what a model reads
//
// A Spec is plain data. Its zero value shares nothing with the host, and shows
// nothing of it: no file, no network, no capability.
//
// The packages below it do the work, and can be used on their own: nsexec runs a
// command in namespaces, mounts describes its file system, overlay keeps what it
// writes apart until it is committed or discarded, fanotify watches what it writes,
// netpolicy says what it reaches, project records what it did, and features tells what
// this kernel can do.
//
// What a command sees is decided by internal/plan, from facts that internal/host finds;
// this package gathers them, starts the command, and settles what it wrote.
//
// Sandboxes are made by a small process that runs nothing of the program that imports
// this package; see package nsexec.
package nsrun
