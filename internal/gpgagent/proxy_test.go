//go:build linux

package gpgagent

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const grip = "0123456789ABCDEF0123456789ABCDEF01234567"

// passed is all that an agent may be told.
var passed = regexp.MustCompile(`^(RESET|GETINFO version|KEYINFO ` + grip + `|SIGKEY ` + grip +
	`|SETKEYDESC A\+command\+in\+a\+sandbox\+of\+nsrun\+signs|SETHASH --hash=sha(1|224|256|384|512) [0-9A-F]{40,128}|PKSIGN|CAN)$`)

// FuzzClient: whatever a client sends, the agent gets only the commands that signing needs, and signs only after a yes.
func FuzzClient(f *testing.F) {
	hash := strings.Repeat("ab", 32)
	f.Add("RESET\nOPTION ttyname=/dev/pts/1\nGETINFO version\nHAVEKEY " + grip + "\nKEYINFO " + grip + "\nSIGKEY " + grip + "\nSETHASH 8 " + hash + "\nPKSIGN\nPKSIGN\nBYE\n")
	f.Add("sigkey " + strings.ToLower(grip) + "\nSETHASH --hash=sha256 " + hash + "\nSETKEYDESC x\nPKSIGN\n")
	f.Add("PKDECRYPT\nSCD SERIALNO\nKEYINFO --list\nSIGKEY " + grip + " x\nD x\nEND\n")
	f.Add("PKDECRYPT\n" + strings.Repeat("x", 3*maxLine) + "\nRESET\n")
	f.Fuzz(func(t *testing.T, text string) {
		near, far := net.Pipe()
		agentNear, agentFar := net.Pipe()
		asked, signed := 0, 0
		done := make(chan struct{})
		go func() { // an agent that does all that it is asked, and asks back
			defer close(done)
			defer agentFar.Close()
			r := bufio.NewReader(agentFar)
			say := func(s string) bool { _, err := agentFar.Write([]byte(s + "\n")); return err == nil }
			if !say("OK hello") {
				return
			}
			for {
				line, err := readLine(r)
				if err != nil {
					return
				}
				if !passed.MatchString(line) {
					t.Errorf("the agent receives %q", line)
				}
				if line == "PKSIGN" {
					if signed++; signed > asked {
						t.Error("the proxy has a signature made without a yes")
					}
					if !say("INQUIRE PASSPHRASE") {
						return
					}
					if _, err := readLine(r); err != nil {
						return
					}
				}
				if !say("D x") || !say("OK") {
					return
				}
			}
		}()
		p := &Proxy{
			Dial:  func(context.Context) (net.Conn, error) { return agentNear, nil },
			Grips: []string{grip},
			Sign:  func(context.Context, string, string, string) bool { asked++; return true },
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer far.Close() // as Serve does
			p.client(t.Context(), far)
		}()
		go func() {
			for r := bufio.NewReader(near); ; {
				if _, err := r.ReadString('\n'); err != nil {
					return
				}
			}
		}()
		_, _ = near.Write([]byte(text))
		near.Close()
		<-ended
		<-done
	})
}
