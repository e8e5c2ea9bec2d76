// Package kinds joins the kinds of changes that a session has (package overlay) to those that the registry keeps (package
// project), which know nothing of each other. It imports overlay and project; nothing else depends on their numbers.
package kinds

import (
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var pairs = [...]struct {
	session  overlay.Kind
	registry project.Kind
}{
	{overlay.Added, project.Added},
	{overlay.Modified, project.Modified},
	{overlay.Deleted, project.Deleted},
	{overlay.TypeChanged, project.TypeChanged},
}

// Registry is a session's kind as the registry has it. What is not a kind stays none.
func Registry(k overlay.Kind) project.Kind {
	for _, p := range pairs {
		if p.session == k {
			return p.registry
		}
	}
	return 0
}

// Session is the registry's kind as a session has it. What is not a kind stays none.
func Session(k project.Kind) overlay.Kind {
	for _, p := range pairs {
		if p.registry == k {
			return p.session
		}
	}
	return 0
}
