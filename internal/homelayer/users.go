//go:build linux

package homelayer

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// dying is how long to wait for the processes of a killed command.
const dying = 5 * time.Second

// vacant waits until no process sees an overlay whose upper directory has a path with this end. It is called only after
// a command was killed: its processes do not all end at once. False: it is still in use.
func vacant(end string) bool {
	option := []byte(end + ",")
	pause := time.Millisecond
	for until := time.Now().Add(dying); used(option); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(until) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

func used(option []byte) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	me := uint32(os.Geteuid())
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name(), &st) != nil || me != 0 && st.Uid != me && st.Uid != 0 && st.Uid != 65534 {
			continue // somebody else's: it cannot see it. A process that has ended is root's for a moment
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/mountinfo")
		if err == nil && bytes.Contains(b, option) {
			return true
		}
	}
	return false
}
