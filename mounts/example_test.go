//go:build linux

package mounts_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// run runs a shell command in a sandbox with this file system, and prints what it writes.
func run(plan mounts.Plan, command string) {
	cmd := nsexec.Command("sh", "-c", command)
	cmd.Mounts = plan
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", out)
}

// The host's files, read-only, with a directory that can be written to.
func ExamplePlan() {
	dir, err := os.MkdirTemp("", "src-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	run(mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.Dev("/dev"),
		mounts.Proc("/proc"),
		mounts.Bind(dir, "/mnt"),
	}, "test -w /usr || echo hello >/mnt/file")

	b, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", b)
	// Output: hello
}

// A Plan without a mount on "/" shows what is in it, and nothing else.
func ExamplePlan_parts() {
	run(mounts.Plan{
		mounts.ROBind("/usr", "/usr"),
		mounts.ROBind("/bin", "/bin"),
		mounts.ROBind("/lib", "/lib"),
		mounts.ROBind("/lib64", "/lib64").Try(),
		mounts.File("/etc/motd", []byte("welcome\n")),
		mounts.Tmpfs("/tmp").WithSize(1 << 20),
	}, "cat /etc/motd; ls /etc /tmp; test -e /home || echo no home")
	// Output:
	// welcome
	// /etc:
	// motd
	//
	// /tmp:
	// no home
}

// Validate finds mistakes without touching the system.
func ExamplePlan_Validate() {
	err := mounts.Plan{mounts.ROBind("/", "/"), mounts.Bind("src", "/src")}.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, mounts.ErrNotAbsolute))
	// Output:
	// bind src: path is not absolute
	// true
}

// What is written to a TmpOverlay is gone with the sandbox.
func ExampleTmpOverlay() {
	dir, err := os.MkdirTemp("", "src-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	run(mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.TmpOverlay("/mnt", dir),
	}, "cd /mnt && echo hello >file && cat file")

	_, err = os.Stat(filepath.Join(dir, "file"))
	fmt.Println("on the host:", err == nil)
	// Output:
	// hello
	// on the host: false
}

// Block hides a file: nobody in the sandbox can read it.
func ExampleBlock() {
	dir, err := os.MkdirTemp("", "src-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	run(mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.Dev("/dev"),
		mounts.Block(key),
	}, "cat "+key+" 2>/dev/null || echo hidden")
	// Output: hidden
}

func ExampleParseMountinfo() {
	infos, err := mounts.ParseMountinfo([]byte(`25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 25 0:27 / /tmp rw,nosuid,nodev shared:2 - tmpfs tmpfs rw
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range infos {
		fmt.Println(i.Target, i.FSType)
	}
	// Output:
	// / ext4
	// /tmp tmpfs
}

// Modifiers return changed copies.
func ExampleMount() {
	bind := mounts.Bind("/srv/data", "/data")
	readOnly := bind.RO()
	fmt.Println(bind.ReadOnly, readOnly.ReadOnly)
	// Output: false true
}
