// Package console is the input and output of the nsrun command: lines on standard error, errors
// with their hints and exit statuses, JSON, a pager, a progress bar, questions, and the state of
// the terminal before and after a command. It knows errors, but no verbs, sessions or flags.
//
// The rules:
//
//   - standard output is for the command's output, and for what a verb was asked to print;
//   - everything else goes to standard error, in lines that begin with "nsrun: ", in lower case,
//     without a full stop: what failed, on which path, why, and at most one command to type as a
//     hint;
//   - on success only what changed is printed, and with -q nothing;
//   - names of files that hold control characters are escaped;
//   - questions are asked only on a terminal, and no answer is never a yes.
package console
