//go:build linux

package tx

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Moment is a modification time. In JSON it is the number of nanoseconds since 1970, or, if 64 bits do not hold that
// (before 1678 and after 2262), the seconds and the nanoseconds as an array.
type Moment unix.Timespec

func (m Moment) MarshalJSON() ([]byte, error) {
	const most = math.MaxInt64/1_000_000_000 - 1
	if sec := int64(m.Sec); -most <= sec && sec <= most {
		t := unix.Timespec(m)
		return strconv.AppendInt(nil, t.Nano(), 10), nil
	}
	return json.Marshal([2]int64{int64(m.Sec), int64(m.Nsec)})
}

func (m *Moment) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		ns, err := strconv.ParseInt(string(data), 10, 64)
		if err != nil {
			err = json.Unmarshal(data, &ns) // says why
		}
		*m = Moment(unix.NsecToTimespec(ns))
		return err
	}
	var parts [2]int64
	err := json.Unmarshal(data, &parts)
	*m = Moment{Sec: parts[0], Nsec: parts[1]}
	return err
}

// now is the kernel's clock for files, in nanoseconds since 1970. A later change of a file has no earlier ctime.
func now() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// soon waits for the next step of that clock, so that earlier changes have earlier ctimes. A step takes at most 10 ms.
// If somebody sets the clock, it does not wait for long.
func soon() int64 {
	first := now()
	for range 100 {
		if t := now(); t != first {
			return t
		}
		time.Sleep(500 * time.Microsecond)
	}
	return now()
}
