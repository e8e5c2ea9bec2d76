# Sourced by run.sh: hosts that are no containers. Each function runs the command that it is given on one. All mounts end
# with the mount namespace of run.sh, or with one of the function's own.

# here SCRIPT COMMAND...: in mounts of its own, after a script.
here() {
	local script=$1
	shift
	unshare --mount --propagation private -- /bin/sh -c "set -e; $script; exec \"\$@\"" sh "$@"
}

plain() { "$@"; }
nohome() { env -u HOME "XDG_STATE_HOME=$HOME" "$@"; }
noshm() { here 'umount -l /dev/shm 2>/dev/null || mount -t tmpfs none /dev/shm -o mode=0' "$@"; }
nosys() { here 'umount -l /sys' "$@"; }
hidepid() { here 'mount -t proc -o hidepid=2 proc /proc' "$@"; }
procsys() { here 'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys' "$@"; }
bubblewrap() { /usr/bin/bwrap --bind / / --dev /dev --proc /proc --unshare-all --die-with-parent -- "$@"; }
oneid() { unshare --user --map-root-user -- "$@"; }
nested() {
	mkdir -p "$HOME/p/home" && chown -R $nobody:$nobody "$HOME/p"
	"${as[@]}" nsrun run -q --direct --project "$HOME/p" --env "HOME=$HOME/p/home" --ro "$work/test" -- "${@: -2}"
}
nonamespaces() { unshare --user --map-root-user -- /bin/sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"' sh "$@"; }
nocaps() { setpriv --bounding-set -all --inh-caps -all -- "$@"; }

# The kernel makes no user namespaces below a root that is not its mount namespace's.
changedroot() {
	here "mount --bind /usr $debian/usr; mount --rbind /dev $debian/dev; mount --bind $work/test $debian/test; mount -t proc proc $debian/proc" \
		env HOME=/home/user PLACE=/test chroot --userspec 1000:1000 "$debian" /bin/sh /test/row.sh
}

# on DIR COMMAND...: with its home, and so its project and its sessions, in DIR.
on() {
	chown -R "$(stat -c %u "$HOME")" "$1" 2>/dev/null || true
	HOME=$1 "${@:2}"
}
ontmpfs() { mkdir -p "$work/tmpfs"; mountpoint -q "$work/tmpfs" || mount -t tmpfs none "$work/tmpfs"; on "$work/tmpfs" "$@"; }

# onvolume is the home directory as Kubernetes makes one of an emptyDir in memory, with fsGroup.
onvolume() {
	mkdir -p "$work/volume-home"
	mountpoint -q "$work/volume-home" || mount -t tmpfs -o "mode=3777,gid=$nobody" none "$work/volume-home"
	HOME=$work/volume-home "$@"
}
onoverlay() {
	mkdir -p "$work/over"/{lower,upper,work,home}
	mountpoint -q "$work/over/home" || mount -t overlay -o "lowerdir=$work/over/lower,upperdir=$work/over/upper,workdir=$work/over/work" none "$work/over/home"
	on "$work/over/home" "$@"
}
onfuse() {
	mkdir -p "$work/fuse"/{lower,upper,work,home}
	mountpoint -q "$work/fuse/home" ||
		fuse-overlayfs -o "allow_other,lowerdir=$work/fuse/lower,upperdir=$work/fuse/upper,workdir=$work/fuse/work" "$work/fuse/home"
	on "$work/fuse/home" "$@"
}
