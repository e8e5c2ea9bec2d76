package manual

import (
	_ "embed"
	"strings"

	"github.com/nsrun/nsrun/internal/bwrap"
)

var (
	//go:embed nsrun.bash.in
	bashScript string
	//go:embed nsrun.zsh.in
	zshScript string
	//go:embed nsrun.fish.in
	fishScript string
)

// Completion is the completion script of a shell: bash, zsh or fish.
func Completion(shell string, verbs []Verb) (script string, ok bool) {
	switch shell {
	case "bash":
		return bash(verbs), true
	case "zsh":
		return zsh(verbs), true
	case "fish":
		return fish(verbs), true
	}
	return "", false
}

// options are the options that are offered: ours alone, or bubblewrap's alone.
func options(ours bool) (list []bwrap.Option) {
	for _, o := range bwrap.Options(true) {
		if o.Ours == ours && !o.Hidden {
			list = append(list, o)
		}
	}
	return list
}

// byKinds sorts options by the kinds of their words, in the order of the table. Those without words are left out.
func byKinds(emit func(kinds []string, names []string)) {
	var order []string
	groups := make(map[string][]string)
	for _, o := range bwrap.Options(true) {
		if o.Args == "" || o.Hidden {
			continue
		}
		k := strings.Join(kinds(strings.Fields(o.Args)), " ")
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], o.Name)
	}
	for _, k := range order {
		emit(strings.Fields(k), groups[k])
	}
}

// rest are the kinds of a verb's operands; + marks those that may be repeated.
func (v *Verb) rest() (list []string) {
	for _, w := range v.operands() {
		kind, _ := kindOf(w)
		if strings.HasSuffix(w, "…") {
			kind += "+"
		}
		list = append(list, kind)
	}
	return list
}

func lines[T any](list []T, each func(T) string) string {
	var b strings.Builder
	for _, v := range list {
		b.WriteString(each(v) + "\n")
	}
	return b.String()
}

func bash(verbs []Verb) string {
	name := func(o bwrap.Option) string { return o.Name }
	var kinds, flagKinds, verbFlags strings.Builder
	byKinds(func(k, names []string) {
		kinds.WriteString("\t" + strings.Join(names, " | ") + ") kinds=(" + strings.Join(k, " ") + ") ;;\n")
	})
	for i := range verbs {
		v := &verbs[i]
		var flags []string
		for _, f := range v.Flags {
			flags = append(flags, f.Typed())
			if f.Arg != "" {
				kind, _ := kindOf(f.Arg)
				flagKinds.WriteString("\t'" + v.Name + " " + f.Name + "') kinds=(" + kind + ") ;;\n")
			}
		}
		verbFlags.WriteString("\t" + v.Name + ") flags='" + strings.Join(flags, " ") + "' rest=(" + strings.Join(v.rest(), " ") + ") ;;\n")
	}
	return fill(bashScript,
		"OPTIONS", lines(options(false), name), "OWN", lines(options(true), name),
		"VERBS", lines(verbs, func(v Verb) string { return v.Name }),
		"CAPS", lines(bwrap.CapNames(), func(s string) string { return s }),
		"KINDS", kinds.String(), "FLAGKINDS", flagKinds.String(), "VERBFLAGS", verbFlags.String())
}

func zshAction(kind string) string {
	switch kind {
	case kindPath:
		return "_files"
	case kindDir:
		return "_directories"
	case kindCap:
		return "_nsrun_caps"
	case kindNetns:
		return "_nsrun_netns"
	case kindSession:
		return "_nsrun_sessions"
	case kindVar:
		return "_parameters -g '*export*'"
	case kindVerb:
		return "_nsrun_verbs"
	}
	if choices, ok := strings.CutPrefix(kind, "choice:"); ok {
		return "(" + strings.ReplaceAll(choices, ",", " ") + ")"
	}
	return " "
}

// zshSpec is an argument of _arguments for an option or a flag.
func zshSpec(name, help string, args []string, repeatable bool) string {
	escape := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`, "\n", " ")
	spec := name + "[" + escape.Replace(help) + "]"
	if repeatable {
		spec = "*" + spec
	}
	for _, a := range args {
		kind, _ := kindOf(a)
		spec += ":" + escape.Replace(a) + ":" + zshAction(kind)
	}
	return zshQuote(spec)
}

func zshQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func zsh(verbs []Verb) string {
	option := func(o bwrap.Option) string {
		return "\t\t" + zshSpec(o.Name, o.Help, strings.Fields(o.Args), o.Args != "" && !o.LastWins)
	}
	var verbFlags strings.Builder
	for i := range verbs {
		v := &verbs[i]
		specs := []string{"_arguments -S -A '-*' :"}
		for _, f := range v.Flags {
			name, args := f.Typed(), []string{f.Arg}
			switch {
			case f.Arg == "":
				args = nil
			case len(f.Name) > 1:
				name += "=" // the word may follow after that, too
			}
			specs = append(specs, zshSpec(name, f.Help, args, f.Arg != ""))
		}
		for _, w := range v.operands() {
			kind, _ := kindOf(w)
			name, more := strings.CutSuffix(w, "…")
			name = strings.ReplaceAll(name, "|", " or ")
			if kind == kindCommand {
				specs = append(specs, "'(-):command:_command_names -e'", "'*::arguments:_normal'")
				break
			}
			spec := ":" + name + ":" + zshAction(kind)
			if more {
				spec = "*" + spec
			}
			specs = append(specs, zshQuote(spec))
		}
		verbFlags.WriteString("\t" + v.Name + ")\n\t\t" + strings.Join(specs, " \\\n\t\t\t") + "\n\t\t;;\n")
	}
	return fill(zshScript,
		"OPTIONS", lines(options(false), option), "OWN", lines(options(true), func(o bwrap.Option) string { return "\t" + option(o) }),
		"VERBS", lines(verbs, func(v Verb) string { return "\t\t" + zshQuote(v.Name+":"+v.Short) }),
		"CAPS", lines(bwrap.CapNames(), func(s string) string { return "\t\t" + s }),
		"VERBFLAGS", verbFlags.String())
}

// fishWord is a word with what it means, as an argument of printf.
func fishWord(word, help string) string {
	s := strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", " ").Replace(word + "\t" + help)
	return "\t\t'" + s + "'"
}

// fishWords are several of them, continued lines.
func fishWords(words []string) string { return strings.Join(words, " \\\n") + "\n" }

func fish(verbs []Verb) string {
	words := func(ours bool) string {
		var list []string
		for _, o := range options(ours) {
			list = append(list, fishWord(o.Name, o.Help))
		}
		return fishWords(list)
	}
	var kinds, flagKinds, verbFlags, rest strings.Builder
	byKinds(func(k, names []string) {
		kinds.WriteString("\tcase " + strings.Join(names, " ") + "\n\t\tprintf '%s\\n' " + strings.Join(k, " ") + "\n")
	})
	var verbWords []string
	for i := range verbs {
		v := &verbs[i]
		verbWords = append(verbWords, fishWord(v.Name, v.Short))
		var flags []string
		for _, f := range v.Flags {
			flags = append(flags, "\t"+fishWord(f.Typed(), f.Help))
			if f.Arg != "" {
				kind, _ := kindOf(f.Arg)
				flagKinds.WriteString("\tcase '" + v.Name + " " + f.Name + "'\n\t\techo " + kind + "\n")
			}
		}
		if flags != nil {
			verbFlags.WriteString("\tcase " + v.Name + "\n\t\tprintf '%s\\n' \\\n" + fishWords(flags))
		}
		rest.WriteString("\tcase " + v.Name + "\n")
		if list := v.rest(); list != nil {
			rest.WriteString("\t\tprintf '%s\\n' " + strings.Join(list, " ") + "\n")
		}
	}
	return fill(fishScript,
		"OPTIONS", words(false), "OWN", words(true), "VERBS", fishWords(verbWords),
		"CAPS", "\t\t"+strings.Join(bwrap.CapNames(), " \\\n\t\t")+"\n",
		"KINDS", kinds.String(), "FLAGKINDS", flagKinds.String(), "VERBFLAGS", verbFlags.String(), "REST", rest.String())
}
