package bwrap

// finish checks what only the whole command line can tell, in bubblewrap's
// order, and fills in what depends on the caller.
func (p *parser) finish(command []string) error {
	c, env := p.cfg, p.env
	switch {
	case c.UsernsBlockFD.Set && !c.UnshareUser:
		return p.fail("--userns-block-fd requires --unshare-user")
	case c.UsernsBlockFD.Set && !c.InfoFD.Set:
		return p.fail("--userns-block-fd requires --info-fd")
	case c.UserNS.Set && c.UnshareUser:
		return p.fail("--userns is not compatible with --unshare-user")
	case c.UserNS.Set && p.userTry:
		return p.fail("--userns is not compatible with --unshare-user-try")
	case c.DisableUserns && !c.UnshareUser:
		return p.fail("--disable-userns requires --unshare-user")
	case c.DisableUserns && c.UsernsBlockFD.Set:
		return p.fail("--disable-userns is not compatible with --userns-block-fd")
	}
	c.UnshareUser = c.UnshareUser || env.UID != 0 && !c.UserNS.Set ||
		p.userTry && env.UserNamespaces != nil && env.UserNamespaces()
	if len(command) == 0 {
		return StopNoCommand
	}
	if !c.UID.Set {
		c.UID.Value = env.UID
	}
	if !c.GID.Set {
		c.GID.Value = env.GID
	}
	mapped := c.UnshareUser || c.UserNS.Set
	switch {
	case !mapped && c.UID.Value != env.UID:
		return p.fail("Specifying --uid requires --unshare-user or --userns")
	case !mapped && c.GID.Value != env.GID:
		return p.fail("Specifying --gid requires --unshare-user or --userns")
	case !c.UnshareUTS && p.hostname:
		return p.fail("Specifying --hostname requires --unshare-uts")
	case c.AsPID1 && !c.UnsharePID:
		return p.fail("Specifying --as-pid-1 requires --unshare-pid")
	case c.AsPID1 && len(c.LockFiles) > 0:
		return p.fail("Specifying --as-pid-1 and --lock-file is not permitted")
	}
	if err := p.finishOurs(); err != nil {
		return err
	}
	c.Command = command
	return nil
}

// finishOurs checks the options of our own.
func (p *parser) finishOurs() error {
	c := p.cfg
	for _, m := range [...]struct {
		name string
		maps []IDMap
	}{{"--uid-map", c.UIDMap}, {"--gid-map", c.GIDMap}} {
		switch {
		case len(m.maps) == 0:
		case !c.UnshareUser:
			return p.fail(m.name, " requires --unshare-user")
		case c.UsernsBlockFD.Set:
			return p.fail(m.name, " is not compatible with --userns-block-fd")
		}
	}
	if c.NetNS.Set {
		if p.netExplicit {
			return p.fail("--netns is not compatible with --unshare-net")
		}
		c.UnshareNet = false // which --unshare-all may have asked for
	}
	return nil
}
