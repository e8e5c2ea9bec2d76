//go:build linux

package nettest

import (
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/netcases"
)

// Controls does every try of the table that has an address, without any sandbox: all must succeed, or the cases show
// nothing. It needs the World. What kinds of sockets there are, and which options join a group, is up to the kernel;
// the result says how many of "open" were, and of "join" did.
func Controls(t *testing.T) (tried, opened, groups int) {
	var k kept
	defer k.close()
	done := make(map[string]bool)
	for _, c := range netcases.All() {
		for _, line := range c.Tries {
			try := netcases.ParseTry(line)
			if _, ok := try.Want(); !ok || done[try.How+try.Target] {
				continue
			}
			done[try.How+try.Target] = true
			if try.How == "open" {
				if Try(Attempt{How: "open", Kind: try.Target}).OK {
					opened++
				} else if try.Target == "abstract" {
					t.Error("the socket without a file is not there")
				}
				continue
			}
			if try.How == "join" {
				if joined(k.try(Attempt{How: try.How, Kind: try.Target}), try.Target).OK {
					groups++
				}
				continue
			}
			a, ok := byAddress(try)
			if !ok {
				continue
			}
			tried++
			if strings.HasSuffix(try.How, "-made") {
				k.try(Attempt{How: "make", Kind: madeKind(a)})
			}
			if out := k.try(a); !out.OK {
				t.Errorf("without a sandbox, %s: %s", line, out.Err)
			}
		}
	}
	return tried, opened, groups
}
