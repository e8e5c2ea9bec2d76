package overlay

import (
	"context"
	"errors"
	"iter"
)

type Recovered struct{}

func Recover(dir string) iter.Seq2[Recovered, error] {
	return func(yield func(Recovered, error) bool) {}
}
func (s *Session) Undo(context.Context, UndoOptions) error { return errors.ErrUnsupported }
func (s *Session) Drop(context.Context, ...string) error   { return errors.ErrUnsupported }
