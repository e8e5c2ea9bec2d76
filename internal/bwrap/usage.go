package bwrap

// helpColumn is where the descriptions begin; a longer option has its description on the next line.
const helpColumn = 33

// Usage renders the help for a program that was started as argv0.
func Usage(argv0 string, extensions bool) string {
	b := make([]byte, 0, 8<<10)
	b = append(b, "usage: "...)
	b = append(b, argv0...)
	b = append(b, " [OPTIONS...] [--] COMMAND [ARGS...]\n"...)
	for g := range groupCount {
		b = append(b, "\n"+g.String()+":\n"...)
		for i := range table {
			o := &table[i]
			if o.Group == g && !o.Hidden && (extensions || !o.Ours) {
				b = appendHelp(b, o)
			}
		}
	}
	return string(b)
}

func appendHelp(b []byte, o *Option) []byte {
	left := "    " + o.Name
	if o.Args != "" {
		left += " " + o.Args
	}
	b = append(b, left...)
	at := len(left)
	if at+1 > helpColumn {
		b = append(b, '\n')
		at = 0
	}
	for rest, more := o.Help, true; more; at = 0 {
		var line string
		line, rest, more = cut(rest, '\n')
		for ; at < helpColumn; at++ {
			b = append(b, ' ')
		}
		b = append(b, line...)
		b = append(b, '\n')
	}
	return b
}
