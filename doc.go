// Package nsrun runs commands in sandboxes made of plain Linux system calls:
// namespaces, mounts, an overlay over the project.
//
//	src := mounts.Bind("/home/me/src", "/home/me/src") // writable; all other files are read-only
//	spec := nsrun.Spec{Mounts: append(nsrun.DefaultMounts(), src)}
//	cmd := spec.Command("go", "test", "./...") // fields and methods as in os/exec.Cmd
//	err := cmd.Run()                           // *nsexec.Error: the sandbox; *exec.ExitError: the program
//
// A [Runner] is for agents. One call asks the user for permission if the command needs any, runs the command in a
// session, and reports what it changed. Secrets are hidden, and the project stays as it is until Runner.Commit:
//
//	r := nsrun.NewRunner(nsrun.Config{Project: "/home/me/src"})
//	res, err := r.Run(ctx, nsrun.Request{Command: "make test"})
//	fmt.Println(res) // stdout, stderr, and the exit code if not zero: what a model reads
//
// A [Spec] describes one sandbox, as plain data, without sessions. A command in a zero Spec has no files, no network
// and no capabilities; as it has no file to execute either, Start returns an error. DefaultMounts shows the host's
// files read-only, without the secrets in known places.
//
// The packages that this one is made of do the work, and can be used on their own: nsexec runs a command in
// namespaces, mounts describes its file system, overlay keeps what it writes apart until that is committed or
// discarded, fanotify watches what it writes, netpolicy says what it may reach, project records what it did, and
// features tells what this kernel can do.
//
// Package internal/host finds facts about the machine, and internal/plan decides from them what a command sees. This
// package calls both, starts the command, and keeps, commits or discards what it wrote.
//
// A small separate process makes the sandboxes. It runs no code of the program that imports this package; see package
// nsexec. On systems other than Linux everything compiles, and functions that would start a sandbox return
// errors.ErrUnsupported.
package nsrun
