//go:build linux

package project

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// The database, version 2. Numbers in keys are big endian, so that they are in order. Values are JSON (encode.go).
//
//	meta         version           → number
//	projects     root              → projectRecord
//	files        id                → fileRecord; its sequence gives out the ids
//	paths        absolute path     → id
//	backups      id, YY-MM-DD      → backupRecord
//	executions   execution         → executionRecord
//	sessions     session NUL execution → nothing                       since 2
//	permissions  project NUL action NUL target → permissionRecord
var (
	metaBucket       = []byte("meta")
	projectBucket    = []byte("projects")
	fileBucket       = []byte("files")
	pathBucket       = []byte("paths")
	backupBucket     = []byte("backups")
	executionBucket  = []byte("executions")
	sessionBucket    = []byte("sessions")
	permissionBucket = []byte("permissions")

	versionKey = []byte("version")
)

// migrations[v] makes version v+1 of version v. A migration is in the same transaction as
// what comes after it: a database is of one version or the next, never in between.
var migrations = [...]func(*bbolt.Tx) error{
	0: func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, projectBucket, fileBucket, pathBucket, backupBucket, executionBucket, permissionBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	},
	// Executions are found by their session.
	1: func(tx *bbolt.Tx) error {
		sessions, err := tx.CreateBucketIfNotExists(sessionBucket)
		if err != nil {
			return err
		}
		return bucket(tx, executionBucket).ForEach(func(k, v []byte) error {
			var e executionRecord
			if err := decode(v, &e); err != nil || e.Session == "" {
				return nil // what cannot be read has no session
			}
			return sessions.Put(sessionKey(string(e.Session), string(k)), nil)
		})
	},
}

const current = uint64(len(migrations))

// version is the database's; zero: it is empty.
func version(tx *bbolt.Tx) (uint64, error) {
	b := tx.Bucket(metaBucket)
	if b == nil {
		return 0, nil
	}
	v := b.Get(versionKey)
	if len(v) != 8 {
		return 0, damaged("it has no version")
	}
	n := binary.BigEndian.Uint64(v)
	if n > current {
		return 0, fmt.Errorf("%w: it is of version %d, this program knows %d", ErrNewer, n, current)
	}
	if n == 0 {
		return 0, damaged("it has version 0")
	}
	return n, nil
}

// migrate brings the database up to date.
func migrate(tx *bbolt.Tx) error {
	v, err := version(tx)
	if err != nil || v == current {
		return err
	}
	for ; v < current; v++ {
		if err := migrations[v](tx); err != nil {
			return err
		}
	}
	return bucket(tx, metaBucket).Put(versionKey, number(current))
}

// bucket is one that every database of the current version has. That it is missing is
// damage, and found by whoever recovers in transact.
func bucket(tx *bbolt.Tx, name []byte) *bbolt.Bucket {
	b := tx.Bucket(name)
	if b == nil {
		panic("no bucket " + string(name))
	}
	return b
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func sessionKey(session, execution string) []byte { return []byte(session + "\x00" + execution) }

func backupKey(id uint64, date string) []byte { return append(number(id), date...) }
