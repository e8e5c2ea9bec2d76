package bwrap

// Steps of the set-up, in the order in which the options name them.

// op appends a step. The pointer is good until the next one is appended.
func (p *parser) op(kind OpKind, source, dest string) *SetupOp {
	ops := p.cfg.Ops
	if p.room != nil && len(ops) == cap(ops) {
		p.full = true
		ops = ops[:0]
	}
	if ops == nil {
		ops = make([]SetupOp, 0, p.words/3+1) // most steps take three words
	}
	ops = append(ops, SetupOp{Kind: kind, Source: source, Dest: dest, FD: -1})
	p.cfg.Ops = ops
	return &ops[len(ops)-1]
}

// opFD appends a step of which the first word is a descriptor.
func (p *parser) opFD(kind OpKind, v []string) error {
	fd, err := p.parseFD(v[0])
	if err == nil {
		p.op(kind, "", v[1]).FD = fd
	}
	return err
}

// opData appends a step that makes a file of what can be read from a descriptor.
func (p *parser) opData(kind OpKind, v []string, perms uint32) error {
	if err := p.opFD(kind, v); err != nil {
		return err
	}
	p.takePerms(&p.cfg.Ops[len(p.cfg.Ops)-1], perms)
	return nil
}

// takePerms gives the pending permissions, or the default, to a step.
func (p *parser) takePerms(op *SetupOp, def uint32) {
	op.Perms = def
	if p.perms.Set {
		op.Perms, op.HasPerms = p.perms.Value, true
	}
	p.perms = Opt[uint32]{}
}

// overlay appends an overlay of the pending layers.
func (p *parser) overlay(o *Option, kind OpKind, upper, work, dest string) error {
	switch {
	case kind == OpROOverlay && len(p.layers) < 2 && p.hide == nil:
		return p.fail(o.Name, " requires at least two --overlay-src")
	case len(p.layers) < 1:
		return p.fail(o.Name, " requires at least one --overlay-src")
	case p.foreign:
		return p.fail(msgLayers)
	}
	layers := p.layers
	p.layers = nil
	for i, j := 0, len(layers)-1; i < j; i, j = i+1, j-1 {
		layers[i], layers[j] = layers[j], layers[i]
	}
	op := p.op(kind, upper, dest)
	op.WorkDir = work
	op.Layers = layers
	op.Hide, op.Submounts = p.hide, p.below
	p.hide, p.below = nil, false
	return nil
}

// relative reports whether a path leads down and nowhere else.
func relative(path string) bool {
	for rest, more := path, true; more; {
		var name string
		if name, rest, more = cut(rest, '/'); name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
