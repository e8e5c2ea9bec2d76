// Package console is how the nsrun command speaks and listens: lines on standard error,
// errors with their hints and exit statuses, JSON, a pager, a progress bar, questions, and
// the state of the terminal before and after a command. It knows errors and nothing of
// verbs, sessions or flags.
//
// The rules:
//
//   - standard output belongs to the command, and to what a verb was asked for;
//   - everything else goes to standard error, in lines that begin with "nsrun: ",
//     in lower case, without a full stop: what, which path, why, and at most one
//     hint that can be typed;
//   - success says nothing but what changed, and -q not even that;
//   - names of files are escaped where they hold control characters;
//   - it asks only on a terminal, and silence is never a yes.
package console
