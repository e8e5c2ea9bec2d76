package cgroup

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Programs are the programs in the kernel with their maps, attached to a cgroup of their own. They
// serve any number of sandboxes.
type Programs struct {
	top   *group
	maps  maps
	ring  *ring
	count atomic.Uint32 // generations so far
	waste chan waste
	spare chan *group // for the next sandbox
	done  sync.WaitGroup

	taking sync.Mutex // who takes from the ring

	mu        sync.Mutex
	sandboxes map[uint64]*Enforcer
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
	p := &Programs{waste: make(chan waste, 64), spare: make(chan *group, 1), sandboxes: make(map[uint64]*Enforcer)}
	for i := range p.maps {
		p.maps[i].fd = sys.None
	}
	if err := p.load(); err != nil {
		p.maps.close()
		if p.top != nil {
			_ = p.top.remove()
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
	if err := p.maps.create(); err != nil {
		return err
	}
	// Another thread begins with the programs meanwhile.
	v := &verifier{maps: &p.maps}
	v.all.Go(v.work)
	top, err := makeTop()
	if err != nil {
		_ = v.finish()
		v.close()
		return err
	}
	p.top = top
	if err = v.finish(); err != nil && !errors.Is(err, unix.EPERM) {
		v.close()
		v = &verifier{maps: &p.maps, old: true}
		err = v.finish()
	}
	defer v.close()
	if err != nil {
		return err
	}
	// Attached so, and not by links, they do not go when this process is killed: it may be gone
	// before what is in the sandbox.
	for i, one := range v.programs {
		if err := attach(int(p.top.dir.Fd()), one, allPrograms[i].attach); err != nil {
			return &os.PathError{Op: "attach", Path: allPrograms[i].name, Err: err}
		}
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

// A verifier has the kernel verify and compile the programs. That is what takes the time, so two
// threads do it.
type verifier struct {
	maps     *maps
	old      bool
	next     atomic.Int32
	all      sync.WaitGroup
	programs [len(allPrograms)]sys.FD
	errs     [len(allPrograms)]error
}

// work takes programs until there are no more; the largest ones are the first.
func (v *verifier) work() {
	for {
		i := int(v.next.Add(1)) - 1
		if i >= len(allPrograms) {
			return
		}
		var err error
		if v.programs[i], err = loadProgram(&allPrograms[i], v.maps, v.old); err != nil {
			v.errs[i] = &os.PathError{Op: "program", Path: allPrograms[i].name, Err: err}
		}
	}
}

// finish helps, and waits until all is done.
func (v *verifier) finish() error {
	v.work()
	v.all.Wait()
	for _, err := range v.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) close() {
	for i := range v.programs {
		v.programs[i].Close()
	}
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
		_ = g.remove()
	default:
	}
	p.ring.unmap()
	p.maps.close()
	if err := p.top.remove(); err != nil {
		return errors.Join(p.left, failed("remove", p.top.name, err))
	}
	return p.left
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL: it returns after an RCU grace period.
const membarrierGlobal = 1

// waste is what nobody needs any more: the keys of generations, and the cgroup of a sandbox that
// has ended; nil for one that goes on.
type waste struct {
	keys  []*keys
	group *group
	last  bool // no other sandbox is to be expected
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

// clear removes what is left of a sandbox, and makes a cgroup for the next one, since there will
// be one: which takes about as long as all else that is done for it.
func (p *Programs) clear(w waste) {
	for _, k := range w.keys {
		_ = k.delete(&p.maps)
	}
	err := w.group.remove()
	p.mu.Lock()
	if err != nil && p.left == nil {
		p.left = failed("remove", w.group.name, err)
	}
	enough := p.closed || w.last || len(p.spare) > 0
	p.mu.Unlock()
	if enough {
		return
	}
	g, err := p.top.child()
	if err != nil {
		return // the next sandbox finds out
	}
	select {
	case p.spare <- g:
	default:
		_ = g.remove()
	}
}

// child is a cgroup for a sandbox.
func (p *Programs) child() (*group, error) {
	select {
	case g := <-p.spare:
		return g, nil
	default:
		return p.top.child()
	}
}
