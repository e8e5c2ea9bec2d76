//go:build linux

package host

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefusedDevices: which devices commands cannot have follows from the number, the driver and the subsystem of a
// device, each of which is enough.
func TestRefusedDevices(t *testing.T) {
	is := func(major, minor uint32, names ...string) deviceKind {
		k := deviceKind{major: major, minor: minor, drivers: names[:len(names)-1], subsystem: names[len(names)-1]}
		if major == miscMajor {
			k.misc, k.drivers = names[0], []string{"misc"}
		}
		return k
	}
	for name, c := range map[string]struct {
		deviceKind
		want error
	}{
		"mem":                              {is(1, 1, "mem", "mem"), errHostMemory},
		"kmem, by its number alone":        {is(1, 2, ""), errHostMemory},
		"null":                             {is(1, 3, "mem", "mem"), nil},
		"port":                             {is(1, 4, "mem", "mem"), errHostMemory},
		"zero":                             {is(1, 5, "mem", "mem"), nil},
		"core":                             {is(1, 6, "mem", "mem"), errHostMemory},
		"urandom":                          {is(1, 9, "mem", "mem"), nil},
		"kmsg":                             {is(1, 11, "mem", "mem"), errHostMemory},
		"oldmem":                           {is(1, 12, "mem", "mem"), errHostMemory},
		"tty63":                            {is(4, 63, "tty", "ttyS", "tty"), errHostTerminal},
		"ttyS0":                            {is(4, 64, "tty", "ttyS", "tty"), nil},
		"ttyUSB0":                          {is(188, 0, "ttyUSB", "tty"), nil},
		"tty":                              {is(5, 0, "/dev/tty", "tty"), nil},
		"console":                          {is(5, 1, "/dev/console", "tty"), errHostTerminal},
		"vcsa1":                            {is(7, 129, "vcs", "vc"), errHostTerminal},
		"st0":                              {is(9, 0, "st", "scsi_tape"), errHostDisks},
		"input/event0":                     {is(13, 64, "input", "input"), nil},
		"sg0":                              {is(21, 0, "sg", "scsi_generic"), errHostDisks},
		"sg0 before its driver is loaded":  {is(21, 0, ""), errHostDisks},
		"a driver with sg's class":         {is(200, 0, "scsi_generic"), errHostDisks},
		"sch0":                             {is(86, 0, "ch", "scsi_changer"), errHostDisks},
		"mtd0ro":                           {is(90, 1, "mtd", "mtd"), errHostDisks},
		"snd/seq":                          {is(116, 1, "alsa", "sound"), nil},
		"pts/0":                            {is(136, 0, "pts", ""), errHostTerminal},
		"pts/4000":                         {is(143, 200, "pts", ""), errHostTerminal},
		"raw/raw1":                         {is(162, 1, "raw", "raw"), errHostDisks},
		"nvidia0, which is not in sysfs":   {is(195, 0, "nvidia-frontend", ""), nil},
		"cpu/0/msr":                        {is(202, 0, "cpu/msr", "msr"), errHostMemory},
		"cpu/0/msr before its driver":      {is(202, 0, ""), errHostMemory},
		"cpu/0/cpuid":                      {is(203, 0, "cpu/cpuid", "cpuid"), nil},
		"dri/card0":                        {is(226, 0, "drm", "drm"), nil},
		"bsg/0:0:0:0":                      {is(248, 0, "bsg", "bsg"), errHostDisks},
		"bsg without sysfs":                {is(248, 0, "bsg", ""), errHostDisks},
		"nvme0":                            {is(241, 0, "nvme", "nvme"), errHostDisks},
		"ng0n1":                            {is(240, 0, "nvme-generic", "nvme-generic"), errHostDisks},
		"ng0n1, by its class alone":        {is(240, 0, "nvme-generic"), errHostDisks},
		"nvme-subsys0":                     {is(241, 0, "nvme", "nvme-subsystem"), errHostDisks},
		"mmcblk0rpmb":                      {is(238, 0, "rpmb", "mmc_rpmb"), errHostDisks},
		"megaraid_sas_ioctl_node":          {is(247, 0, "megaraid_sas_ioctl", ""), errHostDisks},
		"ubi0_0 without sysfs":             {is(246, 1, "ubi0", ""), errHostDisks},
		"dax0.0":                           {is(252, 0, "dax", "dax"), errHostMemory},
		"cxl/mem0":                         {is(252, 0, "cxl", "cxl"), errHostMemory},
		"nvidia-uvm, which is not there":   {is(511, 0, "nvidia-uvm", ""), nil},
		"one of several drivers":           {is(251, 0, "harmless", "nvme", ""), errHostDisks},
		"a dynamic number of nobody":       {is(251, 0, ""), errUnknownDevice},
		"a local number of nobody":         {is(60, 0, ""), errUnknownDevice},
		"hidraw0":                          {is(245, 0, "hidraw", "hidraw"), nil},
		"fuse before its driver is loaded": {is(miscMajor, 229, "", ""), nil},
		"kvm":                              {is(miscMajor, 232, "kvm", "misc"), nil},
		"snapshot":                         {is(miscMajor, 231, "snapshot", "misc"), errHostMemory},
		"mapper/control":                   {is(miscMajor, 236, "", ""), errHostDisks},
		"device-mapper with another minor": {is(miscMajor, 300, "device-mapper", "misc"), errHostDisks},
		"crash":                            {is(miscMajor, 58, "crash", "misc"), errHostMemory},
		"nvme-fabrics":                     {is(miscMajor, 122, "nvme-fabrics", ""), errHostDisks},
		"a dynamic misc device of nobody":  {is(miscMajor, 300, "", ""), errUnknownDevice},
		"vsock":                            {is(miscMajor, 258, "vsock", "misc"), nil},
	} {
		if err := c.refused(); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestKindOf: what the kernel says of this machine's devices is found.
func TestKindOf(t *testing.T) {
	var st unix.Stat_t
	if err := unix.Stat("/dev/null", &st); err != nil {
		t.Fatal(err)
	}
	if k := kindOf(st.Rdev); k.major != 1 || k.minor != 3 || !slices.Equal(k.drivers, []string{"mem"}) || k.misc != "" || k.refused() != nil {
		t.Errorf("/dev/null: %+v", k)
	}
	if _, err := os.Stat("/sys/dev/char/1:3/subsystem"); err == nil {
		if k := kindOf(st.Rdev); k.subsystem != "mem" {
			t.Errorf("/dev/null: %+v", k)
		}
	}
	// A line of other words than a number and a name names nothing.
	const list = "Character devices:\n  1 mem\n 10 misc\n251 a\n251 b c\n"
	if got := numbered(list, 251); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q", got)
	}
	misc, err := os.ReadFile("/proc/misc")
	if err != nil {
		t.Fatal(err)
	}
	for minor := range uint32(300) {
		names := numbered(string(misc), minor)
		if k := kindOf(unix.Mkdev(miscMajor, minor)); len(names) > 0 && (k.misc != names[0] || !slices.Contains(k.drivers, "misc")) {
			t.Errorf("%d: %+v, want %q", minor, k, names)
		}
	}
}
