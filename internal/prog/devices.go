package prog

// A HostDevice is a device of the host's /dev that each sandbox has, with its number in the kernel's devices.txt.
type HostDevice struct {
	Name         string
	Major, Minor uint32
}

// HostDevices are all of them.
var HostDevices = [...]HostDevice{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}
