//go:build linux

package cgroup

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestBatches: many elements come and go at once, and one by one where the kernel has no batches.
func TestBatches(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	const hash, deviceHash = 1, 25 // what the latter maps to are network devices: 1 is lo
	for _, kind := range []uint32{hash, deviceHash} {
		m, err := newMap(&mapSpec{name: "test", kind: kind, key: 4, value: 4, entries: 8}, 0)
		if err != nil {
			testenv.Skip(t, "bpf", err.Error())
		}
		defer m.fd.Close()
		keys, values := []uint32{1, 2, 3, 4}, []uint32{1, 1, 1, 1}
		attr := batch{fd: uint32(m.fd)} // for no elements at all
		if _, err := bpf(unix.BPF_MAP_DELETE_BATCH, &attr); noBatches(err) != (kind == deviceHash) {
			t.Errorf("kind %d: a batch: %v", kind, err)
		}
		left := func() (n int) {
			for _, k := range keys {
				var v uint32
				if lookup(m, &k, &v) == nil {
					n++
				}
			}
			return n
		}
		if err := putAll(m, keys, values); err != nil || left() != len(keys) {
			t.Fatalf("kind %d: put %d: %v", kind, left(), err)
		}
		if err := remove(m, &keys[1]); err != nil {
			t.Fatal(err)
		}
		if err := removeAll(m, keys); err != nil || left() != 0 {
			t.Errorf("kind %d: %d are left: %v", kind, left(), err)
		}
	}
}

// TestVerifierSays: if the verifier refuses a program, the error has the last lines of its log, and the errno.
func TestVerifierSays(t *testing.T) {
	testenv.NeedRoot(t)
	spec := &programSpec{name: "refused", kind: unix.BPF_PROG_TYPE_CGROUP_SKB, attach: unix.BPF_CGROUP_INET_EGRESS}
	exit := "\x95\x00\x00\x00\x00\x00\x00\x00"
	if fd, err := verify(spec, []byte("\xb7\x00\x00\x00\x01\x00\x00\x00"+exit), true); err != nil { // r0 = 1
		t.Errorf("the control: %v", err)
	} else {
		fd.Close()
	}
	for text, want := range map[string]string{
		exit: "R0 !read_ok",
		"\x79\x00\x00\x00\x00\x00\x00\x00" + exit:                                      "R0 !read_ok",        // r0 = *r0
		"\xb7\x00\x00\x00\x00\x00\x00\x00" + "\x79\x00\x00\x00\x00\x00\x00\x00" + exit: "invalid mem access", // r0 = *0
	} {
		fd, err := verify(spec, []byte(text), true)
		if err == nil {
			fd.Close()
		}
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) {
			t.Errorf("%q: %v", text, err)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "processed") || len(err.Error()) > 1000 {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
