//go:build linux

package advice

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/owndir"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Surroundings returns the hint for an error whose cause is where nsrun runs: in a sandbox or a container, under a
// limit, or without a home directory. Empty: it has another cause.
func Surroundings(err error) string {
	if errors.Is(err, unix.EFBIG) {
		return "the limit on the size of files is too low; try: ulimit -f unlimited"
	}
	if text := filterHint(err); text != "" {
		return text
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op != nsexec.StepExec {
		if f := features.Get(features.DirectCalls); f.Status == features.No {
			return f.Err().Error()
		}
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && errors.Is(e.Err, unix.EPERM) {
		switch {
		case e.Op == nsexec.StepClone && inSandbox():
			return insideHint
		case e.Op == nsexec.StepProc:
			if at := overProc(); at != "" {
				return "the kernel refuses a new /proc while something is mounted over " + escape.Quote(at) +
					", as containers have it; try: " + features.Describe(features.OwnProc).Remedy
			}
		}
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && (e.Op == nsexec.StepUIDMap || e.Op == nsexec.StepGIDMap) && errors.Is(e.Err, unix.EROFS) {
		return "ids are mapped by a file in /proc, which is mounted read-only; try: mount -o remount,rw /proc"
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepUIDMap && unix.Access("/proc/self", unix.F_OK) != nil {
		return noProcHint
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && setup(e) {
		if text := lacking(); text != "" {
			return text
		}
		if f := features.Get(features.Overlay); e.Op == nsexec.StepOverlay && f.Status == features.No {
			return f.Err().Error()
		}
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && unspecific(e) && features.Filtered() {
		return underFilter()
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && strings.HasPrefix(e.Path, "/proc/self/") && errors.Is(err, fs.ErrNotExist) {
		return noProcHint
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == "." && errors.Is(err, fs.ErrPermission) {
		return "the current directory cannot be entered; try: cd DIR"
	}
	e, ok := errors.AsType[*overlay.Error](err)
	if !ok || !errors.Is(e, overlay.ErrStateDir) {
		return ""
	}
	if refused := features.Refused(unix.EPERM); refused != nil { // such as to say whose process this is
		return refused.Error()
	}
	if inSandbox() {
		return insideHint
	}
	below := "$HOME"
	if filepath.IsAbs(os.Getenv("XDG_STATE_HOME")) { // others are ignored
		below = "$XDG_STATE_HOME"
	}
	if errors.Is(err, owndir.ErrShared) {
		return sharedHint(e, below, holdsModes)
	}
	for _, why := range [...]error{fs.ErrPermission, fs.ErrNotExist, unix.EROFS, unix.ENOTDIR, unix.ENOSPC, unix.EDQUOT} {
		if e.Path == "" || errors.Is(err, why) {
			return "sessions are kept below " + below + "; try: export XDG_STATE_HOME=DIR, with a directory that only you can write to"
		}
	}
	return ""
}

// Host returns the hint for an error with which this host refuses what works elsewhere: Surroundings, or that there are
// too few descriptors, or that a seccomp filter may be the cause. Empty: it has another cause, such as what the caller
// asked for.
func Host(err error) string {
	if errors.Is(err, unix.EMFILE) {
		return fewFilesHint()
	}
	if text := Surroundings(err); text != "" {
		return text
	}
	e, ok := errors.AsType[*nsexec.Error](err)
	switch {
	case !ok:
	case (e.Op == nsexec.StepUIDMap || e.Op == nsexec.StepGIDMap) && errors.Is(e.Err, unix.EPERM):
		return lacking()
	case setup(e) && features.Filtered():
		return underFilter()
	}
	return ""
}

// sharedHint is the hint for a directory that everybody can write to, as volumes of Kubernetes and Nomad are: its owner
// changes its mode, and others take a sticky directory, in which nobody else can remove what is theirs.
func sharedHint(e *overlay.Error, below string, holdsModes func(path string) bool) string {
	text, uid := "sessions are kept below "+below+", where others could replace them; try: ", unix.Geteuid()
	var st unix.Stat_t
	if unix.Lstat(e.Path, &st) == nil && int(st.Uid) == uid && holdsModes(e.Path) {
		return text + escape.Command([]string{"chmod", "o-w", e.Path})
	}
	for _, dir := range [...]string{"/var/tmp", "/tmp", "/dev/shm"} {
		if unix.Lstat(dir, &st) == nil && st.Mode&unix.S_ISVTX != 0 && unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
			return text + "export XDG_STATE_HOME=" + dir + "/nsrun-" + strconv.Itoa(uid)
		}
	}
	return text + "export XDG_STATE_HOME=DIR, with a directory that only you can write to, and none above it that everybody can write to"
}

// holdsModes reports whether chmod(1) has an effect on the file system of a path.
func holdsModes(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) != nil || !modesFixed(uint32(st.Type))
}

// modesFixed reports whether each file on this type of file system can have the mode that a mount option says, and
// chmod(1) changes none, or reports success all the same (ntfs-3g, drvfs).
func modesFixed(typ uint32) bool {
	const ntfs, ntfs3 = 0x5346544e, 0x7366746e
	return slices.Contains([]uint32{unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, ntfs, ntfs3, unix.V9FS_MAGIC,
		unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC}, typ)
}

// lacking tries the features that a sandbox needs, and returns what is missing, with what to do. Empty: nothing.
func lacking() string {
	for _, name := range [...]features.Name{
		features.Capset, features.UserNamespaces, features.MountNamespaces, features.ProcessNamespaces, features.IPCNamespaces,
		features.CgroupNamespaces, features.NetworkNamespaces, features.SeccompFilters,
	} {
		if f := features.Get(name); f.Status == features.No {
			return f.Err().Error()
		}
	}
	return ""
}

// setup reports whether the kernel refused to set up any sandbox, whatever the command and the paths.
func setup(e *nsexec.Error) bool {
	if errors.Is(e.Err, unix.ENOSPC) || errors.Is(e.Err, unix.EUSERS) {
		return false // a limit, which the error names with what to do
	}
	switch e.Op {
	case nsexec.StepExec, nsexec.StepChdir, nsexec.StepUIDMap, nsexec.StepGIDMap, nsexec.StepUID, nsexec.StepGID, nsexec.StepLandlock:
		return false
	}
	for _, errno := range [...]error{unix.EPERM, unix.EACCES, unix.ENOSYS} {
		if errors.Is(e.Err, errno) {
			return e.Part != nsexec.PartSource && e.Part != nsexec.PartTarget && e.Part != nsexec.PartParents
		}
	}
	return false
}

// unspecific reports whether a step that is not about a file failed with an error that seccomp filters return.
func unspecific(e *nsexec.Error) bool {
	switch e.Op {
	case "start", "supervise", "limit", nsexec.StepSeccomp, nsexec.StepLandlock:
		return errors.Is(e.Err, unix.ENOSYS) || errors.Is(e.Err, unix.EPERM) || errors.Is(e.Err, unix.EACCES)
	}
	return false
}

// filterHint is the hint where a seccomp filter refuses calls without which there are no sessions, or has ended the
// sandbox at a call.
func filterHint(err error) string {
	if killed, ok := errors.AsType[*nsexec.KilledError](err); ok && killed.Signal == unix.SIGSYS {
		return cmp.Or(lacking(), "a seccomp filter ends processes at a system call that this needs, instead of refusing it; try: "+features.FilterRemedy())
	}
	if refused := features.Refused(err); refused != nil {
		return refused.Error()
	}
	if errors.Is(err, unix.EAFNOSUPPORT) && features.Filtered() {
		return "a seccomp filter refuses sockets of a kind that this needs, as RestrictAddressFamilies= of a unit of systemd does; try: " + unfiltered()
	}
	return ""
}

// underFilter is the hint where a filter may have refused any call.
func underFilter() string {
	return "nsrun itself runs under a seccomp filter, as in a container, which may refuse a call that this needs; try: " + unfiltered()
}

// unfiltered says how this process is started without a filter.
func unfiltered() string {
	return cmp.Or(features.UnitRemedy(), "docker run --security-opt seccomp=unconfined, podman run --security-opt seccomp=unconfined, "+
		"or a unit of systemd without SystemCallFilter= and RestrictAddressFamilies=")
}

// setupHint is the hint where the kernel refuses a call that each sandbox needs.
func setupHint() string {
	if features.Filtered() && lacking() == "" { // of what doctor tests
		return underFilter()
	}
	return "try: nsrun doctor"
}

const noProcHint = "there is no /proc here, or that of another PID namespace; try: mount -t proc proc /proc"

const insideHint = "nsrun already runs in a sandbox of nsrun: run the command directly, or run the outer nsrun with --allow-userns, as an ordinary user"

// inSandbox reports whether this process runs in a sandbox of nsrun run: PID 1 is nsrun, and no_new_privs is set.
func inSandbox() bool {
	comm, err := os.ReadFile("/proc/1/comm")
	if err != nil || !strings.HasPrefix(string(comm), "nsrun") {
		return false
	}
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && set == 1
}

// overProc returns a place below /proc over which something is mounted, or "".
func overProc() string {
	table, err := mounts.ReadMountinfo()
	if err != nil {
		return ""
	}
	for _, m := range table {
		if m.MasksProc() {
			return m.Target
		}
	}
	return ""
}
