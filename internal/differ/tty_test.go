//go:build linux && !race

package differ

import (
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/testenv"
)

// onTerminal starts the program on a terminal of its own.
func (s *scene) onTerminal(args string) (*running, *testenv.Terminal) {
	term := testenv.NewTerminal(s.p.t)
	x := s.p.start(s.program, s.bin, &line{args: args}, term)
	s.all = append(s.all, x)
	return x, term
}

func terminals() (jobs []job) {
	for _, args := range []string{"BASE", "BASE --dev /dev", "BASE --dev /dev --new-session", "BASE --dev /dev --unshare-pid", "BASE --dev /dev --unshare-pid --new-session",
		"BASE --dev /x/dev --unshare-all", "BASE --dev /dev --unshare-user --uid 0 --gid 0", "HOST --dev /dev"} {
		jobs = append(jobs, play("terminal "+args, "", func(s *scene) {
			x, term := s.onTerminal(args)
			s.note("exit", x.wait())
			s.note("left", s.settled())
			s.await("the last line", func() bool { return strings.HasSuffix(term.Screen(), "}\r\n") })
			r := result{"stdout": strings.ReplaceAll(term.Screen(), "\r\n", "\n")}
			s.p.normalise(r, x.cmd.Process.Pid, x.known)
			for k, v := range r {
				if strings.Contains(k, "console") || strings.HasPrefix(k, "in.fd.") {
					v = ptsName.ReplaceAllString(v, "/dev/pts/N")
				}
				s.r[x.paths.Replace(k)] = x.paths.Replace(v)
			}
			term.Close()
		}))
	}
	for _, key := range []struct{ name, key string }{{"Ctrl-C", "\x03"}, {"Ctrl-\\", "\x1c"}, {"Ctrl-Z", "\x1a"}} {
		for _, args := range []string{"", "--unshare-pid", "--new-session", "--unshare-pid --new-session", "--unshare-pid --die-with-parent", "--sync-fd 9"} {
			jobs = append(jobs, play("terminal "+key.name+" "+args, "user", func(s *scene) {
				x, term := s.onTerminal("HOST --dev /dev " + args + " -- sleep 60")
				s.await("sleep", s.running("sleep"))
				_ = s.settled()
				term.Type(key.key)
				if exits(x, enough) {
					s.note("exit", x.wait())
				}
				s.note("left", s.settled())
				for _, p := range testenv.Processes() {
					if p.Parent == os.Getpid() && p.Pid == x.cmd.Process.Pid {
						_ = x.cmd.Process.Kill()
						s.note("exit at last", x.wait())
					}
				}
				_ = s.settled()
				term.Close()
			}))
		}
	}
	return jobs
}
