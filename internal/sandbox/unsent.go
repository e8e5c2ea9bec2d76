//go:build linux

package sandbox

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Counters are the two files in which the kernel counts what happened to packets in a network namespace. As long as
// they are open, the namespace exists, and they can be read even if all processes in it have ended.
type Counters struct {
	mu    sync.Mutex
	files [2]sys.FD // "snmp" and "snmp6"; None: there is none
	last  Unsent
}

// Unsent says what the kernel did not send for a command, see Options.Unsent.
type Unsent struct {
	// NoRoute is how many connects and datagrams went to addresses outside the network namespace and had no route.
	// In a new namespace none has one.
	NoRoute int
	// NoPort is how many UDP datagrams went to a port of the namespace's own addresses on which no socket was
	// bound, such as that of a name server at 127.0.0.53.
	NoPort int
}

// Count opens the counters of the network namespace of a process while the sandbox is set up. As long as the process is
// in our network namespace, it tries again a moment later, up to tries times. Nil: there are none.
func Count(pid, tries int) *Counters {
	for i := range tries {
		if i > 0 {
			time.Sleep(50 * time.Microsecond)
		}
		c, early := countersOf("/proc/" + strconv.Itoa(pid))
		if !early {
			return c
		}
	}
	return nil
}

// countersOf opens them for a process. It is too early if the process is in our network namespace.
func countersOf(process string) (_ *Counters, early bool) {
	c := &Counters{files: [2]sys.FD{sys.None, sys.None}}
	for i, name := range [...]string{"/net/snmp", "/net/snmp6"} {
		fd, err := unix.Open(process+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // the process has ended, or the kernel has no such protocol
		}
		c.files[i] = sys.FD(fd)
		// Each namespace has its own files, with other inode numbers.
		var theirs, own unix.Stat_t
		if i == 0 && (unix.Fstat(fd, &theirs) != nil || unix.Stat("/proc/self"+name, &own) == nil && theirs.Ino == own.Ino) {
			c.Close(false)
			return nil, true
		}
	}
	if c.files[0] < 0 {
		c.Close(false)
		return nil, false
	}
	return c, false
}

// read returns what was counted so far. After Close it returns what Close has read.
func (c *Counters) read() Unsent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[0] < 0 {
		return c.last
	}
	buf := make([]byte, 16<<10)
	var u Unsent
	for i, parse := range [...]func(*Unsent, []byte){(*Unsent).addTable, (*Unsent).addList} {
		if c.files[i] < 0 {
			continue
		}
		if n, err := unix.Pread(int(c.files[i]), buf, 0); err == nil {
			parse(&u, buf[:n])
		}
	}
	c.last = u
	return u
}

// Close closes the files. With read, it reads them for the last time.
func (c *Counters) Close(read bool) {
	if c == nil {
		return
	}
	if read {
		c.read()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.files {
		c.files[i].Close()
		c.files[i] = sys.None
	}
}

// addTable adds the content of /proc/net/snmp: for each protocol a line of names, and a line of numbers.
func (u *Unsent) addTable(text []byte) {
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(names) == 0 || len(fields) != len(names) || !bytes.Equal(fields[0], names[0]) {
			names = fields
			continue
		}
		for i, name := range names {
			u.add(string(fields[0])+string(name), fields[i])
		}
		names = nil
	}
}

// addList adds the content of /proc/net/snmp6: a name and a number on each line.
func (u *Unsent) addList(text []byte) {
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) == 2 {
			u.add(string(f[0]), f[1])
		}
	}
}

func (u *Unsent) add(name string, number []byte) {
	n, err := strconv.Atoi(string(number))
	if err != nil {
		return
	}
	switch name {
	case "Ip:OutNoRoutes", "Ip6OutNoRoutes":
		u.NoRoute += n
	case "Udp:NoPorts", "Udp6NoPorts":
		u.NoPort += n
	}
}

// Unsent returns what the kernel did not send so far in the command's network namespace. After Wait the numbers are
// final if the command failed; if it succeeded, they may be older. It is zero without CountUnsent, and if /proc does
// not show it.
func (o *Options) Unsent() Unsent {
	if o.Counters == nil {
		return Unsent{}
	}
	return o.Counters.read()
}
