//go:build linux

package cgroup

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/sys"
)

// Programs are the BPF programs with their maps, attached to a cgroup of their own. They serve any number of sandboxes.
type Programs struct {
	top   *cgroups.Group
	maps  maps
	ring  *ring
	count atomic.Uint32 // generations so far
	waste chan waste
	spare chan *cgroups.Group // for the next sandbox
	done  sync.WaitGroup

	silent [2]atomic.Bool // the kernel does not tell who made a TCP or a UDP socket

	taking sync.Mutex // who takes from the ring

	mu        sync.Mutex
	sandboxes map[uint64]*Enforcer
	served    int  // sandboxes so far
	sparing   bool // a spare is being made
	closed    bool
	left      error // of the first cgroup that could not be removed
}

// maps are the maps, by the order of allMaps.
type maps [len(allMaps)]bpfMap

func (m *maps) close() {
	for i := range m {
		m[i].fd.Close()
	}
}

// Load loads the programs and attaches them to a new cgroup below the caller's own.
func Load() (*Programs, error) {
	p := &Programs{waste: make(chan waste, 64), spare: make(chan *cgroups.Group, 1), sandboxes: make(map[uint64]*Enforcer)}
	for i := range p.maps {
		p.maps[i].fd = sys.None
	}
	if err := p.load(); err != nil {
		p.maps.close()
		if p.top != nil {
			_ = p.top.Remove()
		}
		return nil, failed("load", "", err)
	}
	p.done.Add(2)
	go p.read()
	go p.reap()
	return p, nil
}

// load makes maps and cgroup, and loads and attaches the programs.
func (p *Programs) load() error {
	var beside sync.WaitGroup
	var err error
	beside.Go(func() { p.top, err = cgroups.MakeTop() })
	merr := p.maps.create()
	beside.Wait()
	if err = cmp.Or(merr, err); err != nil {
		return err
	}
	l := &loader{maps: &p.maps, cgroup: int(p.top.Dir.Fd())}
	if err = l.run(); err != nil {
		return err
	}
	p.ring, err = newRing(p.maps[mapEvents], allMaps[mapEvents].entries)
	return err
}

func (m *maps) create() error {
	types, err := loadTypes(allMaps[mapSockets].value)
	if err != nil {
		return err
	}
	defer types.Close()
	for i := range allMaps {
		btf := 0
		if i == mapSockets {
			btf = int(types)
		}
		if m[i], err = newMap(&allMaps[i], btf); err != nil {
			return &os.PathError{Op: "map", Path: allMaps[i].name, Err: err}
		}
	}
	return nil
}

// A loader has the kernel verify, compile and attach the programs. The first takes the time, so several threads do it.
type loader struct {
	maps   *maps
	cgroup int
	next   atomic.Int32
	failed atomic.Bool
}

// loaders is how many threads there are at most: the largest program takes a quarter of the time.
const loaders = 4

func (l *loader) run() error {
	errs := make([]error, min(loaders, runtime.GOMAXPROCS(0)))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = l.work() })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// work takes programs until there are no more; the largest ones are the first.
func (l *loader) work() error {
	for !l.failed.Load() {
		i := int(l.next.Add(1)) - 1
		if i >= len(allPrograms) {
			break
		}
		if err := l.one(&allPrograms[i]); err != nil {
			l.failed.Store(true)
			return &os.PathError{Op: "program", Path: allPrograms[i].name, Err: err}
		}
	}
	return nil
}

func (l *loader) one(spec *programSpec) error {
	fd, err := loadProgram(spec, l.maps, false)
	if err != nil && !errors.Is(err, unix.EPERM) {
		fd, err = loadProgram(spec, l.maps, true)
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	// Attached so, and not by links, they do not go when this process is killed: it may be gone
	// before what is in the sandbox.
	return attach(l.cgroup, fd, spec.attach)
}

// Close detaches and forgets the programs. All sandboxes must have been closed.
func (p *Programs) Close() error {
	p.mu.Lock()
	if len(p.sandboxes) > 0 {
		p.mu.Unlock()
		return failed("close", "", errBusy)
	}
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	close(p.waste)
	_ = p.ring.file.Close()
	p.done.Wait()
	select {
	case g := <-p.spare:
		g.Discard()
	default:
	}
	p.ring.unmap()
	p.maps.close()
	if err := p.top.Remove(); err != nil {
		return errors.Join(p.left, failed("remove", p.top.Name, err))
	}
	return p.left
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL: it returns after an RCU grace period.
const membarrierGlobal = 1

// waste is what nobody needs any more: the keys of generations, and the cgroup of a sandbox that
// has ended; nil for one that goes on.
type waste struct {
	keys  []*keys
	group *cgroups.Group
}

// reap deletes waste: commands need not wait for that.
func (p *Programs) reap() {
	defer p.done.Done()
	for w := range p.waste {
		var replaced []*keys
		for more := true; more; {
			if w.group != nil {
				p.clear(w)
			} else {
				replaced = append(replaced, w.keys...)
			}
			select {
			case w, more = <-p.waste:
			default:
				more = false
			}
		}
		if len(replaced) == 0 {
			continue
		}
		// A program that is running may have read the number of the old generation just before
		// it was replaced. This waits until no such program is running.
		_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
		for _, k := range replaced {
			_ = k.delete(&p.maps)
		}
	}
}

// clear removes what is left of a sandbox.
func (p *Programs) clear(w waste) {
	for _, k := range w.keys {
		_ = k.delete(&p.maps)
	}
	if err := w.group.Remove(); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.left == nil {
			p.left = failed("remove", w.group.Name, err)
		}
	}
}

// Spare makes a cgroup for the next sandbox, if there is none yet: that takes as long as everything else that is done
// for a sandbox. If there was only one sandbox so far, it does nothing, because that may stay the only one. prepare is
// called with the cgroup before it can be used, and may start a process in it that executes nothing of a sandbox yet.
// drop is called before the cgroup is removed, whether it was used or not. If no cgroup can be made, the next Enforce
// returns the error.
func (p *Programs) Spare(prepare, drop func(cgroup *os.File)) {
	p.mu.Lock()
	if p.closed || p.sparing || p.served < 2 || len(p.spare) > 0 {
		p.mu.Unlock()
		return
	}
	p.sparing = true
	p.done.Add(1)
	p.mu.Unlock()
	defer p.done.Done()
	g, err := p.top.Child()
	if err == nil {
		prepare(g.Dir)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sparing = false
	if err == nil {
		g.Drop = drop
		p.spare <- g
	}
}

// child is a cgroup for a sandbox.
func (p *Programs) child() (*cgroups.Group, error) {
	select {
	case g := <-p.spare:
		return g, nil
	default:
		return p.top.Child()
	}
}
