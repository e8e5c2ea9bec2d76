//go:build linux

package turns

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const nobody = 65534

// name is the program's.
func name() string { return filepath.Base(os.Args[0]) }

// AsUser builds nsrun where everybody can read it, unless the flag -nsrun names one, and runs this program again with
// its flags as an ordinary user. Home and temporary files are in a directory of $TMPDIR, which is removed.
func AsUser() (status int) {
	defer Failed(&status)
	dir, err := os.MkdirTemp("", "nsrun-"+name())
	Check(err)
	defer os.RemoveAll(dir)
	Check(os.Chown(dir, nobody, nobody))
	self := filepath.Join(dir, name())
	b, err := os.ReadFile("/proc/self/exe")
	Check(err)
	Check(os.WriteFile(self, b, 0o755))
	if flag.Lookup("nsrun").Value.String() == "" {
		nsrun := filepath.Join(dir, "nsrun")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -E nsrun_early", "-o", nsrun, "github.com/nsrun/nsrun/cmd/nsrun")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile does it
		build.Stderr = os.Stderr
		Check(build.Run())
		Check(flag.Set("nsrun", nsrun))
	}
	cmd := exec.Command(self)
	flag.Visit(func(f *flag.Flag) { cmd.Args = append(cmd.Args, "-"+f.Name, f.Value.String()) })
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	Check(cmd.Run())
	return 0
}
