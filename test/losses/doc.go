// Package losses looks for bytes that get lost between a session and its project. It has no code but tests.
//
// The same random calls are made natively and in `nsrun run`, and what comes of both has to be the same. Then the
// session is committed, undone and committed again, in parts too, with sessions on it, with changes by the project's
// owner, and with nsrun killed in between: the project is always as it was, or as the session saw it. NSRUN_SEEDS="7 1"
// repeats one try.
//
// It may import internal/testenv only.
package losses
