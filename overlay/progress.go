package overlay

import "context"

// Progress says how far a commit has come, or a copy (see WithProgress).
type Progress struct {
	Done, Total int   // objects
	Bytes       int64 // of files
}

type progressKey struct{}

// WithProgress returns a context with which CreateContext, ResumeContext and Collect call f for each object that they
// copy or compare (EngineCopy), before they come to it. Total is 0, and is Done in the last call, at the end.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}
