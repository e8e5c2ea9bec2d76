package bwrap

// Values of options.

// fd sets an option whose word is a descriptor.
func (p *parser) fd(o *Option, to *Opt[int], number string) error {
	if to.Set {
		p.warnLast(o)
	}
	fd, err := p.parseFD(number)
	if err == nil {
		*to = some(fd)
	}
	return err
}

// text sets an option whose word is taken as it is.
func (p *parser) text(o *Option, to *Opt[string], value string) {
	if to.Set {
		p.warnLast(o)
	}
	*to = some(value)
}

// label sets an option whose word is an SELinux label.
func (p *parser) label(o *Option, to *Opt[string], value string) error {
	p.text(o, to, value)
	if p.env.CheckLabel == nil {
		return p.fail("labeling not supported on this system")
	}
	if err := p.env.CheckLabel(value); err != nil {
		return &Error{Text: "invalid label " + value, Err: err}
	}
	return nil
}

// identity sets --uid or --gid.
func (p *parser) identity(o *Option, to *Opt[uint32], number, what string) error {
	if to.Set {
		p.warnLast(o)
	}
	id, err := p.parseID(number, what, p.env.Extensions)
	if err == nil {
		*to = some(id)
	}
	return err
}

// validVar says whether the C library takes a variable's name.
func validVar(name string) bool { return name != "" && countByte(name, '=') == 0 }
