//go:build linux

// Package nettest drives the enforcers of netpolicy with the cases of internal/netcases. It provides the world for
// them: a network namespace in which every address answers, a DNS server that can lie, the Probe that tries things
// inside a sandbox, and the loop that compares. Programs runs real programs in place of the Probe, with a server for
// each. Only tests import it; it imports internal/netcases, internal/sys, internal/testenv and netpolicy, and no
// enforcer.
//
//	func TestMain(m *testing.M) {
//		nettest.Main() // the world around all tests; or a probe
//		testenv.Main(m)
//	}
//
//	func TestCases(t *testing.T) {
//		nettest.World(t)
//		nettest.Controls(t)
//		nettest.Run(t, func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver) nettest.Sandbox {
//			// Attach an enforcer to the table, serve the resolver, start this binary with
//			// ProbeEnv set in a sandbox; then
//			return nettest.NewPipe(t, stdin, stdout, nettest.PipeOptions{…})
//		})
//	}
package nettest
