// Package usage describes a verb of the nsrun command, parses its flags, explains it, and
// says what was meant by a word that is none. It does not know which verbs there are: the
// table of them stands in the command.
package usage
