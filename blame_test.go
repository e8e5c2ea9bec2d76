//go:build linux

package nsrun

import (
	"path"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
)

// TestBlame: which process counts as failed because of a refusal, by what processes do and print next.
func TestBlame(t *testing.T) {
	const sh, cmd, other = 10, 11, 12
	program := func(host int) attempts.Process {
		p := attempts.Process{Host: host, Parent: sh, Program: "prog"}
		if host == sh {
			p.Parent, p.Program = 1, "sh"
		}
		return p
	}
	refused := func(host, index int, target string) func(b *blame) {
		return func(b *blame) { b.refused(program(host), met{index: index, target: target, err: unix.EROFS}) }
	}
	missing := func(host int, target string) func(b *blame) {
		return func(b *blame) { b.refused(program(host), met{target: target, err: unix.ENOENT}) }
	}
	vague := func(b *blame) { b.refused(program(sh), met{target: "/closed/x.h", err: unix.EACCES, vague: true}) }
	aside := func(host, status int) func(b *blame) {
		return func(b *blame) {
			p := program(host)
			p.Background = true
			b.Ended(p, status, false)
		}
	}
	named := func(host int, name string, status int) func(b *blame) {
		return func(b *blame) {
			p := program(host)
			p.Program = name
			b.Ended(p, status, false)
		}
	}
	call := func(b *blame) { b.refused(program(sh), met{index: 0, target: "keyctl", err: unix.EPERM, call: true}) }
	said := func(host int, text string) func(b *blame) { return func(b *blame) { b.Said(host, []byte(text)) } }
	tried := func(host int, name string, failed bool) func(b *blame) {
		return func(b *blame) { b.Tried(host, name, failed) }
	}
	ended := func(host, status int) func(b *blame) {
		return func(b *blame) { b.Ended(program(host), status, host == sh) }
	}
	unreached := func(host, threads int, target string, above ...int) func(b *blame) {
		return func(b *blame) {
			p := program(host)
			p.Threads, p.Above = threads, above
			b.refused(p, met{index: 0, target: target, net: true})
		}
	}
	piped := func(host, status int, in, out string) func(b *blame) {
		return func(b *blame) {
			p := program(host)
			p.In, p.Out = in, out
			b.Ended(p, status, false)
		}
	}
	for _, tt := range []struct {
		name string
		did  []func(b *blame)
		want []int
	}{
		{"nothing", []func(b *blame){ended(sh, 1)}, nil},
		{"silent", []func(b *blame){refused(sh, 0, "/ro/f"), ended(sh, 1)}, []int{0}},
		{"named by its code", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "EROFS\n"), ended(sh, 1)}, []int{0}},
		{"told by a pipe", []func(b *blame){refused(cmd, 0, "/ro/r/objects/x"), ended(cmd, 0), said(sh, "failed to push to '../ro/r'\n"), ended(sh, 1)}, []int{0}},
		{"told by a pipe, elsewhere", []func(b *blame){refused(cmd, 0, "/ro/r/objects/x"), ended(cmd, 0), said(sh, "failed to push to '/ro/q'\n"), ended(sh, 1)}, nil},
		{"told by a pipe, no failure", []func(b *blame){refused(cmd, 0, "/ro/r/objects/x"), ended(cmd, 0), said(sh, "bad argument /ro/r\n"), ended(sh, 1)}, nil},
		{"success", []func(b *blame){refused(sh, 0, "/ro/f"), ended(sh, 0)}, nil},
		{"silent, went on", []func(b *blame){refused(sh, 0, "/ro/f"), tried(sh, "/p/x", false), ended(sh, 1)}, nil},
		{"silent, tried again", []func(b *blame){refused(sh, 0, "/ro/f"), tried(sh, "/ro/f", true), tried(sh, "/ro", false), ended(sh, 1)}, []int{0}},
		{"silent, compiled", []func(b *blame){refused(sh, 0, "/ro/__pycache__"), ended(sh, 1)}, nil},
		{"named", []func(b *blame){refused(sh, 0, "/ro/f"), tried(sh, "/p/x", false), said(sh, "prog: cannot open '/ro/f'\n"), ended(sh, 1)}, []int{0}},
		{"named by its last name", []func(b *blame){refused(sh, 0, "/ro/file"), tried(sh, "/p/x", false), said(sh, "prog: file: no"), ended(sh, 1)}, []int{0}},
		{"a directory with the program's name", []func(b *blame){refused(sh, 0, "/ro/sh"), tried(sh, "/p/x", false), said(sh, "see 'sh help modules'\n"), ended(sh, 1)}, nil},
		{"that directory, by its path", []func(b *blame){refused(sh, 0, "/ro/sh"), tried(sh, "/p/x", false), said(sh, "mkdir /ro/sh: no\n"), ended(sh, 1)}, []int{0}},
		{"error named", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "OSError: Read-only file system\n"), ended(sh, 1)}, []int{0}},
		{"unnamed", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "cannot save\n"), ended(sh, 1)}, []int{0}},
		{"unnamed, went on", []func(b *blame){refused(sh, 0, "/ro/f"), tried(sh, "/p/x", false), said(sh, "cannot save\n"), ended(sh, 1)}, nil},
		{"of something else", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "ValueError: 1\n"), ended(sh, 1)}, nil},
		{"own path named", []func(b *blame){refused(sh, 0, "/ro/f"), tried(sh, "/p/none", true), said(sh, "none: No such file\n"), ended(sh, 1)}, nil},
		{"message before the last", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "/ro/f: no\n"), tried(sh, "/p/x", false), said(sh, "syntax error\n"), ended(sh, 1)}, nil},
		{"refers back", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "/ro/f: no\n"), tried(sh, "/p/x", false), said(sh, "see previous errors\n"), ended(sh, 1)}, []int{0}},
		{"its line goes on", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "Error "), tried(sh, "/p/x", false), said(sh, "/ro/f: no\n"), tried(sh, "/p/x", false), said(sh, "\tat x\n"), ended(sh, 1)}, []int{0}},
		{"warning", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "warning: /ro/f: no\nfatal: bad\n"), ended(sh, 1)}, nil},
		{"line of source", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "write(\"/ro/f\"); throw x\n                ^\nError: own\n"), ended(sh, 1)}, nil},
		{"call, looked for the reason", []func(b *blame){call, tried(sh, "/p/x", false), said(sh, "No permission for keys\n"), ended(sh, 1)}, []int{0}},
		{"call, did without", []func(b *blame){call, tried(sh, "/p/x", false), said(sh, "syntax error\n"), ended(sh, 1)}, nil},
		{"call, own path named", []func(b *blame){call, tried(sh, "/p/x", true), said(sh, "/p/x: Operation not permitted\n"), ended(sh, 1)}, nil},
		{"second of two", []func(b *blame){refused(sh, 0, "/ro/f"), refused(sh, 1, "/ro/g"), said(sh, "/ro/g: no\n"), ended(sh, 1)}, []int{1}},
		{"another program", []func(b *blame){refused(sh, 0, "/ro/f"), func(b *blame) { b.Executed(sh) }, ended(sh, 1)}, nil},
		{"child", []func(b *blame){refused(cmd, 0, "/ro/f"), said(cmd, "/ro/f: no\n"), ended(cmd, 1), ended(sh, 1)}, []int{0}},
		{"child, script says something", []func(b *blame){refused(cmd, 0, "/ro/f"), ended(cmd, 1), said(sh, "sorry\n"), ended(sh, 1)}, []int{0}},
		{"child of its own", []func(b *blame){refused(cmd, 0, "/ro/f"), ended(cmd, 1), ended(other, 1), ended(sh, 1)}, nil},
		{"child, then one that succeeds", []func(b *blame){refused(cmd, 0, "/ro/f"), ended(cmd, 1), ended(other, 0), ended(sh, 1)}, nil},
		{"message before a child's end", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "/ro/f: no\n"), ended(other, 1), ended(sh, 1)}, nil},
		{"refers back behind a child's end", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "/ro/f: no\n"), ended(other, 1), said(sh, "see previous errors\n"), ended(sh, 1)}, []int{0}},
		{"child that succeeds", []func(b *blame){refused(cmd, 0, "/ro/f"), ended(cmd, 0), ended(sh, 1)}, nil},
		{"pipeline", []func(b *blame){refused(cmd, 0, "/ro/f"), piped(cmd, 1, "", "pipe:[1]"), piped(other, 1, "pipe:[1]", ""), ended(sh, 1)}, []int{0}},
		{"pipeline that ends well", []func(b *blame){refused(cmd, 0, "/ro/f"), piped(cmd, 1, "", "pipe:[1]"), piped(other, 0, "pipe:[1]", ""), ended(sh, 1)}, []int{0}},
		{"other pipeline", []func(b *blame){refused(cmd, 0, "/ro/f"), piped(cmd, 1, "", "pipe:[1]"), piped(other, 1, "pipe:[2]", ""), ended(sh, 1)}, nil},
		{"network, silent", []func(b *blame){unreached(sh, 1, ""), ended(sh, 1)}, []int{0}},
		{"network, resolving", []func(b *blame){unreached(sh, 1, ""), tried(sh, "/etc/resolv.conf", false), ended(sh, 1)}, []int{0}},
		{"network, went on", []func(b *blame){unreached(sh, 1, ""), tried(sh, "/p/x", false), ended(sh, 1)}, nil},
		{"network, said", []func(b *blame){unreached(sh, 9, ""), tried(sh, "/p/x", false), said(sh, "Could not resolve x.test\n"), ended(sh, 1)}, []int{0}},
		{"network, named", []func(b *blame){unreached(sh, 9, "x.test"), tried(sh, "/p/x", false), said(sh, "no http://x.test/a\n"), ended(sh, 1)}, []int{0}},
		{"network, another name", []func(b *blame){unreached(sh, 9, "x.test"), said(sh, "no http://x.test.a/, ax.test\n"), ended(sh, 1)}, nil},
		{"network, name in source", []func(b *blame){unreached(sh, 9, "x.test"), said(sh, "get(\"x.test\")\n  ^\nError: own\n"), ended(sh, 1)}, nil},
		{"network, where it happened", []func(b *blame){unreached(sh, 9, ""), said(sh, "Error: own\n    at connect (x)\n"), ended(sh, 1)}, nil},
		{"network, complained", []func(b *blame){unreached(sh, 9, ""), said(sh, "WARNING: x\nno connection\n"), tried(sh, "/p/x", false), said(sh, "cannot go on\n"), ended(sh, 1)}, []int{0}},
		{"network, complained, something else", []func(b *blame){unreached(sh, 9, ""), said(sh, "no connection\n"), tried(sh, "/p/x", false), said(sh, "syntax\n"), ended(sh, 1)}, nil},
		{"network, one thread", []func(b *blame){unreached(sh, 1, ""), said(sh, "cannot go on\n"), ended(sh, 1)}, []int{0}},
		{"network, beside", []func(b *blame){unreached(sh, 9, ""), said(sh, "cannot go on\n"), ended(sh, 1)}, nil},
		{"network, own path named", []func(b *blame){unreached(sh, 1, ""), tried(sh, "/p/none", true), said(sh, "cannot connect none\n"), ended(sh, 1)}, nil},
		{"network, of a helper", []func(b *blame){unreached(cmd, 1, "", sh), said(sh, "download failed\n"), ended(sh, 1)}, []int{0}},
		{"network, of a helper, silent", []func(b *blame){unreached(cmd, 1, "", sh), ended(sh, 1)}, nil},
		{"network, beside a child that fails of it", []func(b *blame){refused(cmd, 1, "/ro/f"), ended(cmd, 1), unreached(sh, 9, ""), said(sh, "command failed\n"), ended(sh, 1)}, []int{1}},
		{"network, behind a child of its own", []func(b *blame){refused(sh, 1, "/ro/f"), ended(cmd, 1), unreached(sh, 1, ""), ended(sh, 1)}, []int{0}},
		{"network, beside a child of its own", []func(b *blame){unreached(sh, 9, ""), ended(cmd, 1), unreached(sh, 9, ""), ended(sh, 1)}, nil},
		{"signal", []func(b *blame){refused(sh, 0, "/ro/f"), func(b *blame) { b.signaled(sh) }}, nil},
		{"signal after a message", []func(b *blame){refused(sh, 0, "/ro/f"), said(sh, "/ro/f: no\n"), func(b *blame) { b.signaled(sh) }}, []int{0}},
		{"background child, then one that succeeds", []func(b *blame){refused(cmd, 0, "/ro/f"), aside(cmd, 1), named(other, "sleep", 0), ended(sh, 3)}, nil},
		{"child, then a pause", []func(b *blame){refused(cmd, 0, "/ro/f"), ended(cmd, 1), named(other, "sleep", 0), ended(sh, 3)}, []int{0}},
		{"background child that is waited for", []func(b *blame){refused(cmd, 0, "/ro/f"), aside(cmd, 1), ended(sh, 1)}, []int{0}},
		{"searched", []func(b *blame){missing(sh, "/hidden"), tried(sh, "/p/x.h", true), said(sh, "m.c:1:10: x.h: No such file\n"), ended(sh, 1)}, []int{0}},
		{"missing in a hidden directory, too", []func(b *blame){vague, said(sh, "cannot find module 'x.h'\n"), ended(sh, 1)}, nil},
		{"missing in a hidden directory, silent", []func(b *blame){vague, ended(sh, 1)}, nil},
		{"missing in a hidden directory, and told of that", []func(b *blame){vague, said(sh, "x.h: Permission denied\n"), ended(sh, 1)}, []int{0}},
		{"a module", []func(b *blame){missing(sh, "/hidden/x.h"), tried(sh, "/p/x", false), said(sh, "Cannot find module 'x'\n"), ended(sh, 1)}, []int{0}},
		{"searched elsewhere", []func(b *blame){missing(sh, "/hidden"), tried(sh, "/p/y.h", true), said(sh, "m.c:1:10: y.h: No such file\n"), ended(sh, 1)}, nil},
		{"searched, for a directory that cannot be written to", []func(b *blame){refused(sh, 0, "/hidden"), tried(sh, "/p/x.h", true), said(sh, "x.h: No such file\n"), ended(sh, 1)}, nil},
		{"searched, above", []func(b *blame){missing(sh, "/hidden"), tried(sh, "/p/x", false), said(sh, "../x.h, /x.h: No such file\n"), ended(sh, 1)}, nil},
		{"searched, something else said", []func(b *blame){missing(sh, "/hidden"), tried(sh, "/p/x", false), said(sh, "x.h:1: syntax error\n"), ended(sh, 1)}, nil},
	} {
		b := blame{holds: func(dir, name string) bool {
			return path.Join(dir, name) == "/hidden/x.h" || name == "../x.h" || name == "/x.h"
		}}
		for _, do := range tt.did {
			do(&b)
		}
		if !slices.Equal(b.reason, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, b.reason, tt.want)
		}
	}
}

// TestBlameForked: what a process is refused, another one of the same program may say.
func TestBlameForked(t *testing.T) {
	var b blame
	b.refused(attempts.Process{Host: 12, Parent: 11, Kin: []int{11, 10}}, met{index: 0, target: "/ro/f", err: unix.EROFS})
	b.Said(10, []byte("receiver: /ro/f: no\n"))
	b.Ended(attempts.Process{Host: 11, Parent: 10, Kin: []int{10}, Program: "prog"}, 1, false)
	b.Ended(attempts.Process{Host: 10, Parent: 1}, 1, true)
	if !slices.Equal(b.reason, []int{0}) {
		t.Errorf("%v", b.reason)
	}
}

// TestBlameOfForked: if a process ends without a message, the message of a process that it forked, and that still runs,
// says why it failed.
func TestBlameOfForked(t *testing.T) {
	for _, tt := range []struct {
		name, worker, said string
		want               []int
	}{
		{"the worker says it", "worker: /ro/f: no\n", "", []int{0}},
		{"the worker says nothing", "", "", nil},
		{"the worker says something else", "worker: ready\n", "", nil},
		{"both say something", "worker: /ro/f: no\n", "syntax error\n", nil},
	} {
		var b blame
		b.refused(attempts.Process{Host: 11, Parent: 10, Kin: []int{10}}, met{index: 0, target: "/ro/f", err: unix.EROFS})
		b.Tried(11, "/p/x", false)
		b.Said(11, []byte(tt.worker))
		b.Said(10, []byte(tt.said))
		b.Ended(attempts.Process{Host: 10, Parent: 1}, 1, true)
		if !slices.Equal(b.reason, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, b.reason, tt.want)
		}
	}
}

// TestBlameIsBounded: however often and wherever a command is refused something, this process keeps a bounded number of
// refusals, and still knows the reason of the failure.
func TestBlameIsBounded(t *testing.T) {
	var b blame
	p := attempts.Process{Host: 20, Above: []int{10}, Threads: 1}
	for i := range 10 * mostMet {
		b.refused(p, met{index: 1, target: "192.0.2.1", net: true})
		b.refused(p, met{index: 0, target: strconv.Itoa(i), net: true})
	}
	if n, above := len(b.of[20].met), len(b.of[10].met); n != mostMet || above != mostMet || b.of[20].times != 20*mostMet {
		t.Errorf("%d, %d above, %d times", n, above, b.of[20].times)
	}
	b.Said(20, []byte("cannot connect to 192.0.2.1\n"))
	b.Ended(p, 1, true)
	if !slices.Equal(b.reason, []int{1}) {
		t.Errorf("reason %v", b.reason)
	}
	for i := range 2 * mostFollowed {
		b.refused(attempts.Process{Host: 100 + i}, met{target: "/ro/f", err: unix.EROFS})
	}
	if n := len(b.of); n > mostFollowed {
		t.Errorf("%d processes", n)
	}
}
