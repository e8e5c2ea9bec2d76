package limits

import "strconv"

// Amount is a value of a limit for people.
func (n Name) Amount(v float64) string {
	switch n {
	case Memory, Swap, FileSize, Output, Disk:
		return FormatSize(int64(v))
	case PIDs:
		return strconv.FormatFloat(v, 'f', -1, 64) + " processes"
	case Inodes:
		return strconv.FormatFloat(v, 'f', -1, 64) + " files"
	case CPUs:
		return strconv.FormatFloat(v, 'f', -1, 64) + " processors"
	case OpenFiles:
		return strconv.FormatFloat(v, 'f', -1, 64) + " descriptors"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// title is a limit's name for people.
func (n Name) title() string {
	switch n {
	case PIDs:
		return "process limit"
	case CPUs:
		return "processor limit"
	case OpenFiles:
		return "limit of open files"
	case FileSize:
		return "file size limit"
	case Inodes:
		return "inode limit"
	case Nice:
		return "lower priority by"
	}
	return string(n) + " limit"
}

// String is a limit for people: "memory limit 512 MiB".
func (h Held) String() string {
	if h.Name == IdleIO {
		return "disks only when they are idle"
	}
	return h.Name.title() + " " + h.Name.Amount(h.Value)
}

// HitText is what is said of a limit that was hit; killed: the command was ended for it.
func HitText(n Name, value float64, killed bool) string {
	text := Held{Name: n, Value: value}.String() + " reached"
	if killed {
		return "killed: " + text
	}
	return text
}

// LessText is what is said of a limit that is held less well than asked.
func (h Held) LessText() string {
	if h.By == ByRunner {
		return "the " + h.String() + " is enforced by nsrun itself, because there is no cgroup: " + h.Less + " " + Remedy
	}
	return "the " + h.String() + " is enforced by a " + string(h.By) + ": " + h.Less
}

// Twice is the flag of nsrun run for a limit that is twice as high. Empty: there is none.
func (n Name) Twice(v float64) string {
	switch n {
	case Memory, Swap, FileSize, Output, Disk:
		return "--" + string(n) + " " + SizeText(2*int64(v))
	case PIDs, CPUs, OpenFiles, Inodes:
		return "--" + string(n) + " " + strconv.FormatFloat(2*v, 'f', -1, 64)
	}
	return ""
}
