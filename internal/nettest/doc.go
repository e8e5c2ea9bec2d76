//go:build linux

// Package nettest drives whatever enforces netpolicy with the cases of
// internal/netcases. It has the world that they happen in, a network namespace in which
// every address answers, a DNS server that can lie, the Probe that tries things inside of
// a sandbox, and the loop that compares. Programs has real programs in its place, with
// servers for each. Only tests import it.
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
