//go:build linux

package nsrun

import (
	"os"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// byRules reports whether network rules apply to a request.
func (c *Config) byRules(q *Request) bool {
	return !q.Network && (q.LearnNet || len(c.Net.Rules) > 0 || len(c.Publish) > 0)
}

// openNetwork makes what network rules for a command need; they are not yet enforced. landlock says that the command
// has no namespaces.
func (r *Runner) openNetwork(q *Request, landlock, explain bool) (_ *network, err error) {
	c := &r.config
	if c.Enforcer != BrokerEnforcer && !landlock && !explain && len(c.Credentials) == 0 && features.Has(features.LandlockScopes) {
		go r.kernel.load() // it takes the longest
	}
	policy := c.Net
	if policy.HostAddrs == nil && q.LearnNet {
		if policy.HostAddrs, err = netpolicy.OwnAddrs(); err != nil {
			return nil, err
		}
	}
	if q.LearnNet {
		policy = netpolicy.Everything(policy.HostAddrs)
	}
	n := &network{mode: c.Enforcer, learn: q.LearnNet, servers: host.ReadResolvConf()}
	if n.table, err = netpolicy.NewTable(policy); err != nil {
		return nil, err
	}
	hosts, err := n.learnHosts()
	if err != nil {
		return nil, err
	}
	if n.learn {
		n.log.Names, n.log.Hosts = n.table.Names, hosts
	}
	n.log.NameRefused = func(name string) {
		if tell := n.observe.Load(); tell != nil {
			(*tell)(name)
		}
	}
	resolver := &netpolicy.Resolver{Table: n.table, Upstreams: n.servers.Upstreams, Hosts: withOwnName(hosts), Search: n.servers.Search, Log: &n.log}
	if landlock {
		n.mode = BrokerEnforcer
		n.attach = func(*nsexec.Cmd) {} // attachConfinement does that
		if !explain {
			n.byDeputy(resolver)
		}
		return n, nil
	}
	if err := r.enforce(n, resolver, explain); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// enforce chooses what enforces the rules of a command with namespaces, and starts it.
func (r *Runner) enforce(n *network, resolver *netpolicy.Resolver, explain bool) (err error) {
	c := &r.config
	if n.mode == AutoEnforcer && len(c.Credentials) > 0 {
		n.mode = BrokerEnforcer // the gateways need a network namespace
	}
	if explain {
		if n.mode == AutoEnforcer {
			n.mode = BrokerEnforcer
			if os.Geteuid() == 0 && len(noKernelRules()) == 0 {
				n.mode = KernelEnforcer
			}
		}
		n.attach = func(cmd *nsexec.Cmd) {
			if n.mode == KernelEnforcer {
				cmd.Share |= nsexec.Net
			}
		}
		return nil
	}
	if n.mode == AutoEnforcer && (features.Get(features.LandlockScopes).Status == features.No || features.Get(features.Clone3).Status == features.No) {
		// The programs could be loaded, but then no command could be executed.
		n.fallBack()
	}
	if n.mode != BrokerEnforcer {
		programs, perr := r.kernel.take()
		switch {
		case perr == nil:
			n.stop = append(n.stop, r.kernel.release)
			n.mode = KernelEnforcer
			err = n.byKernel(programs, resolver, c.Publish)
		case n.mode == AutoEnforcer:
			n.fallBack()
		default:
			err = perr
		}
	}
	if err == nil && n.mode == BrokerEnforcer {
		err = n.byBroker(resolver, c.Publish, c.userNamespaces())
	}
	return err
}
