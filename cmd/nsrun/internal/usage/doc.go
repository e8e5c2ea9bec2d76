// Package usage describes a verb of the nsrun command, parses its flags, prints its help, and suggests a flag for an
// unknown one. It does not know which verbs there are: the command has the table of them.
package usage
