//go:build linux

package wall

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// TestIoctls: the filter refuses each request that changes files through a descriptor which is open for reading, and
// none that programs need.
func TestIoctls(t *testing.T) {
	const none, write, read, both = 0, 1 << 30, 2 << 30, 3 << 30
	request := func(dir, kind, nr, size uint32) uint32 { return dir | size<<16 | kind<<8 | nr }
	filter := Filter(Options{})
	raw := make([]bpf.RawInstruction, len(filter))
	for i, in := range filter {
		raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter is not understood")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request uint32
		refused bool
	}{
		"FS_IOC_GETFLAGS":               {unix.FS_IOC_GETFLAGS, false},
		"FS_IOC_SETFLAGS":               {unix.FS_IOC_SETFLAGS, true},
		"FS_IOC32_SETFLAGS":             {request(write, 'f', 2, 4), true},
		"FS_IOC_SETVERSION":             {request(write, 'v', 2, 8), true},
		"FS_IOC_FSGETXATTR":             {request(read, 'X', 31, 28), false},
		"FS_IOC_FSSETXATTR":             {request(write, 'X', 32, 28), true},
		"FS_IOC_FIEMAP":                 {request(both, 'f', 11, 32), false},
		"FS_IOC_SETFSLABEL":             {request(write, 0x94, 50, 256), true},
		"FS_IOC_SET_ENCRYPTION_POLICY":  {unix.FS_IOC_SET_ENCRYPTION_POLICY, true},
		"FS_IOC_ADD_ENCRYPTION_KEY":     {unix.FS_IOC_ADD_ENCRYPTION_KEY, true},
		"FS_IOC_REMOVE_ENCRYPTION_KEY":  {unix.FS_IOC_REMOVE_ENCRYPTION_KEY, true},
		"FS_IOC_ENABLE_VERITY":          {unix.FS_IOC_ENABLE_VERITY, true},
		"FIFREEZE":                      {request(both, 'X', 119, 4), true},
		"FITRIM":                        {request(both, 'X', 121, 24), true},
		"FS_IOC_SHUTDOWN":               {request(read, 'X', 125, 4), true},
		"EXT4_IOC_MOVE_EXT":             {request(both, 'f', 15, 40), true},
		"XFS_IOC_UNRESVSP64":            {request(write, 'X', 43, 48), true},
		"BTRFS_IOC_SUBVOL_CREATE":       {request(write, 0x94, 14, 4096), true},
		"BTRFS_IOC_SNAP_DESTROY":        {request(write, 0x94, 15, 4096), true},
		"FICLONE":                       {unix.FICLONE, false},
		"FIDEDUPERANGE":                 {unix.FIDEDUPERANGE, false},
		"FAT_IOCTL_GET_ATTRIBUTES":      {request(read, 'r', 0x10, 4), false},
		"FAT_IOCTL_SET_ATTRIBUTES":      {request(write, 'r', 0x11, 4), true},
		"F2FS_IOC_SET_PIN_FILE":         {request(write, 0xf5, 13, 4), true},
		"F2FS_IOC_SET_COMPRESS_OPTION":  {request(write, 0xf5, 22, 2), true},
		"F2FS_IOC_START_ATOMIC_WRITE":   {request(none, 0xf5, 1, 0), true},
		"CEPH_IOC_SET_LAYOUT":           {request(write, 0x97, 2, 40), true},
		"CEPH_IOC_SET_LAYOUT_POLICY":    {request(write, 0x97, 5, 40), true},
		"CIFS_IOC_SET_INTEGRITY":        {request(none, 0xcf, 4, 0), true},
		"CIFS_QUERY_INFO":               {request(both, 0xcf, 7, 24), true},
		"REISERFS_IOC_UNPACK":           {request(write, 0xcd, 1, 8), true},
		"BCH_IOCTL_SUBVOLUME_CREATE":    {request(write, 0xbc, 16, 32), true},
		"BCH_IOCTL_SUBVOLUME_DESTROY":   {request(write, 0xbc, 17, 32), true},
		"BCHFS_IOC_REINHERIT_ATTRS":     {request(read, 0xbc, 64, 8), true},
		"AUTOFS_IOC_EXPIRE_MULTI":       {request(write, 0x93, 0x66, 4), true},
		"ZFS_IOC_SETDOSFLAGS":           {request(write, 0x83, 2, 8), true},
		"NILFS_IOCTL_CHANGE_CPMODE":     {request(write, 'n', 0x80, 16), true},
		"NILFS_IOCTL_DELETE_CHECKPOINT": {request(write, 'n', 0x81, 8), true},
		"NILFS_IOCTL_SET_SUINFO":        {request(write, 'n', 0x8d, 24), true},
		"HFSPLUS_IOC_BLESS":             {request(none, 'h', 0x80, 0), true},
		"UDF_RELOCATE_BLOCKS":           {request(both, 'l', 0x43, 8), true},
		"OCFS2_IOC_REFLINK":             {request(write, 'o', 4, 24), true},
		"OCFS2_IOC_GROUP_EXTEND":        {request(write, 'o', 1, 4), true},
		"OCFS2_IOC_GROUP_ADD":           {request(write, 'o', 2, 24), true},
		"OCFS2_IOC_GROUP_ADD64":         {request(write, 'o', 3, 24), true},

		"TCGETS":               {unix.TCGETS, false},
		"FIONREAD":             {unix.TIOCINQ, false},
		"FIOCLEX":              {0x5451, false},
		"SIOCGIFCONF":          {unix.SIOCGIFCONF, false},
		"RNDGETENTCNT":         {unix.RNDGETENTCNT, false},
		"HPET_INFO":            {request(read, 'h', 3, 24), false},
		"NS_GET_PARENT":        {unix.NS_GET_PARENT, false},
		"DRM_IOCTL_VERSION":    {request(both, 'd', 0, 64), false},
		"KVM_RUN":              {request(none, 0xae, 0x80, 0), false},
		"FE_SET_PROPERTY":      {request(write, 'o', 82, 16), false},
		"PERF_EVENT_IOC_RESET": {unix.PERF_EVENT_IOC_RESET, false},
		"SNDRV_PCM_IOCTL_DROP": {request(none, 'A', 0x43, 0), false},
		"FIGETBSZ":             {2, false},
	} {
		for _, upper := range []uint32{0, 1} {
			b := make([]byte, seccomp.DataArgs+6*8)
			binary.BigEndian.PutUint32(b, unix.SYS_IOCTL) // the virtual machine loads words in this order
			binary.BigEndian.PutUint32(b[seccomp.DataArgs+8:], c.request)
			binary.BigEndian.PutUint32(b[seccomp.DataArgs+12:], upper)
			want := uint32(seccomp.Allow)
			if c.refused {
				want = seccomp.Refuse | uint32(unix.EPERM)
			}
			if got, err := vm.Run(b); err != nil || uint32(got) != want {
				t.Errorf("%s, upper half %d: %#x, want %#x: %v", name, upper, uint32(got), want, err)
			}
		}
	}
}
