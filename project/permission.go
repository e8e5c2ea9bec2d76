//go:build linux

package project

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
)

func (a Action) check() error {
	switch a {
	case Read, Write, Execute, Environment:
		return nil
	}
	if strings.Contains(strings.ToLower(string(a)), "net") {
		return ErrNetwork
	}
	return fmt.Errorf("no such action: %q", string(a))
}

func permissionKey(project string, a Action, target string) []byte {
	return []byte(project + "\x00" + string(a) + "\x00" + target)
}

// check refuses what must not be stored.
func (p Permission) check() error {
	if err := p.Action.check(); err != nil {
		return &Error{"store permission", p.Target, err}
	}
	switch {
	case p.Decision != Allow && p.Decision != Deny:
		return &Error{"store permission", p.Target, fmt.Errorf("%s is not a decision", p.Decision)}
	case p.Project != "" && (!filepath.IsAbs(p.Project) || !clean(p.Project)):
		return &Error{"store permission", p.Project, fmt.Errorf("a project must be an absolute path")}
	case p.Target == "" || strings.ContainsRune(p.Target, 0):
		return &Error{"store permission", p.Target, fmt.Errorf("a target must not be empty or contain a NUL byte")}
	}
	return nil
}

// Set stores a permission. It is on disk when Set returns. For the network the error is ErrNetwork.
func (r *Registry) Set(p Permission) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Time.IsZero() {
		p.Time = r.now()
	}
	rec := permissionRecord{text(p.Project), p.Action, text(p.Target), p.Decision, nanos(p.Time)}
	return r.update(func(tx *bbolt.Tx) error {
		return bucket(tx, permissionBucket).Put(permissionKey(p.Project, p.Action, p.Target), encode(&rec))
	})
}

// Get returns the decision about exactly this target: for the project, or if there is none, for all projects. If there
// is no decision at all, p.Decision is zero.
func (r *Registry) Get(project string, a Action, target string) (p Permission, err error) {
	if a.check() != nil || strings.ContainsRune(project, 0) {
		return Permission{}, nil
	}
	err = r.viewAsIs(func(tx *bbolt.Tx) error {
		for _, scope := range [...]string{project, ""} {
			v := bucket(tx, permissionBucket).Get(permissionKey(scope, a, target))
			if v == nil {
				continue
			}
			var rec permissionRecord
			if err := decode(v, &rec); err != nil {
				return err
			}
			// What the key says counts, if the record says the same.
			if string(rec.Project) != scope || rec.Action != a || string(rec.Target) != target {
				return damaged("a permission has the key of another one")
			}
			p = rec.permission()
			return nil
		}
		return nil
	})
	return p, err
}

// Permissions lists all permissions, in the order of project, action, target.
func (r *Registry) Permissions() (list []Permission, err error) {
	err = r.viewAsIs(func(tx *bbolt.Tx) error {
		return bucket(tx, permissionBucket).ForEach(func(_, v []byte) error {
			var rec permissionRecord
			if err := decode(v, &rec); err != nil {
				return err
			}
			list = append(list, rec.permission())
			return nil
		})
	})
	return list, err
}

// Forget removes the decision about a target, if there is one. The change is on disk when Forget returns.
func (r *Registry) Forget(project string, a Action, target string) error {
	return r.update(func(tx *bbolt.Tx) error {
		return bucket(tx, permissionBucket).Delete(permissionKey(project, a, target))
	})
}

func (rec *permissionRecord) permission() Permission {
	return Permission{string(rec.Project), rec.Action, string(rec.Target), rec.Decision, moment(rec.Time)}
}
