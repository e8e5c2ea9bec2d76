package limits

import "strconv"

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

// String returns the limit for people: "memory limit 512 MiB".
func (h Held) String() string {
	if h.Name == IdleIO {
		return "disks only when they are idle"
	}
	return h.Name.title() + " " + h.Name.Amount(h.Value)
}

// HitText is the message about a limit that was reached; killed: it ended the command.
func HitText(n Name, value float64, killed bool) string {
	text := Held{Name: n, Value: value}.String() + " reached"
	if killed {
		return "killed: " + text
	}
	return text
}

// LostText is the message about a limit for which a command was ended because it could not be measured any more.
func (o *Outcome) LostText() string {
	return "killed: the " + o.String() + " could not be enforced any more: " + o.Lost.Error()
}

// LessText is the message about a limit that is enforced less strictly than asked.
func (h Held) LessText() string {
	if h.By == ByRunner {
		return "the " + h.String() + " is enforced by nsrun itself, because there is no cgroup: " + h.Less + Remedy
	}
	return "the " + h.String() + " is enforced by a " + string(h.By) + ": " + h.Less
}

// Twice is the flag for a limit twice as high; empty: there is none.
func (n Name) Twice(v float64) string {
	switch n {
	case Memory, Swap, FileSize, Output, Disk:
		return "--" + string(n) + " " + SizeText(2*int64(v))
	case PIDs, CPUs, OpenFiles, Inodes:
		return "--" + string(n) + " " + strconv.FormatFloat(2*v, 'f', -1, 64)
	}
	return ""
}
