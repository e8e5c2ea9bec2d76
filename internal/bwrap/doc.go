// Package bwrap reads bubblewrap's command line.
//
// [Parse] turns the words after the program's name into a [Config]: plain data that says what was asked for, in the
// order in which it was asked for where the order matters. It is bubblewrap 0.12.0's grammar, with its error texts, its
// warnings and its oddities, because scripts and programs depend on all of them. Parse runs nothing and changes
// nothing. It gets everything else that it has to know (a descriptor's contents, the caller's ids) from an [Env], so
// that every command line can be tested without a kernel.
//
// The caller prints: [Stop] says that a command line asked for the help, the version or nothing at all, an [*Error]
// holds the text of a refusal, and [Message] and [Usage] return the text for both.
//
// # The table
//
// There is one table of options, in options.go. Parsing, the help, the manual page and the completions come from it.
// Options of our own are marked there; they exist only if [Env.Extensions] is set, and never change the meaning of one
// of bubblewrap's.
//
// It imports nothing of this module and starts nothing. [ParseIn] also runs before the Go runtime has started (package
// prerun), in memory that its caller supplies: code that it reaches must not allocate. optionID.instant says for which
// options this holds.
//
// # Where it departs from bubblewrap
//
// If --overlay-src is followed by --args, so that an overlay option inside the file would use its words, Parse refuses
// it; bubblewrap reads memory that is not its own there. With Extensions, --uid and --gid take numbers up to 2^32-2 and
// refuse larger ones; bubblewrap cuts them to 32 bits, so that 4294967296 becomes root.
package bwrap
