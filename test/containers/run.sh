#!/usr/bin/env bash
# Usage: run.sh NSRUN [ROW...]
#
# Starts containers by podman, with the profile of seccomp and the settings that docker, podman and Kubernetes have, and
# other roots and hosts than Debian's; row.sh says what nsrun does there. Prints the table of docs/hosts.md. Podman's
# storage, its user and all mounts are this script's own. With NSRUN_CONTAINERS_WHY it prints what nsrun said, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. test/lib.sh

is_root || unavailable "only root can make users for containers"
[ "$(uname -m)" = x86_64 ] || unavailable "the profile of docker is for amd64"
packages podman crun catatonit uidmap bubblewrap fuse-overlayfs busybox-static util-linux golang-github-containers-common
if [ -z "${NSRUN_CONTAINERS:-}" ]; then # mounts that nobody else sees, and that end with this script
	NSRUN_CONTAINERS=1 exec unshare --mount --propagation private -- "$0" "$@"
fi

nsrun=$(realpath "$1")
shift
work=$(mktemp -d /var/lib/nsrun-containers-XXXXXX)
trap 'cd /; end_pause; clear_mounts; clear_cgroups; rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"

clear_mounts() { awk -v at="$work/" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount -l; }

# end_pause ends the process by which rootless podman keeps its namespaces.
end_pause() { find "$work/runtime" -name pause.pid -exec cat {} \; 2>/dev/null | xargs -r kill 2>/dev/null || true; }

# clear_cgroups removes what podman leaves of its own.
clear_cgroups() {
	[ ! -d /sys/fs/cgroup/nsrun-containers ] || find /sys/fs/cgroup/nsrun-containers -depth -type d -exec rmdir {} + 2>/dev/null || true
}

# docker's profile of seccomp, of which only the file is wanted.
cached=$(cache containers)
profile=$cached/default.json
if [ ! -s "$profile" ]; then
	mkdir -p "$cached"
	(cd "$work" && apt-get -qq -o Acquire::Retries=3 download golang-github-docker-docker-dev >/dev/null 2>&1 && dpkg -x ./*.deb docker) ||
		unavailable "the package golang-github-docker-docker-dev cannot be had"
	install -m 644 "$work"/docker/usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json "$profile"
fi

# What is the same in all roots: /test.
mkdir "$work/test"
cp /bin/busybox "$work/test/"
install -m 755 "$nsrun" "$work/test/nsrun"
install -m 755 test/containers/row.sh "$work/test/"
CGO_ENABLED=0 go test -vet=off -c -o "$work/test/nsrun.test" . >/dev/null

# base ROOT: what every root has, owned by whoever the container's root is.
base() {
	mkdir -p "$1"/{proc,sys,dev,etc,tmp,run,root,test,home/user,var/tmp,usr/bin}
	chmod 1777 "$1/tmp" "$1/var/tmp"
	printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$1/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >"$1/etc/group"
	ln -s /proc/self/mounts "$1/etc/mtab"
	chown -R 1000:1000 "$1/home/user"
}
debian=$work/debian alpine=$work/alpine nixos=$work/nixos
for root in "$debian" "$alpine" "$nixos"; do base "$root"; done
for name in bin sbin lib lib64; do ln -s "usr/$name" "$debian/$name"; done
mkdir "$alpine/bin"
cp /bin/busybox "$alpine/bin/"
store=/nix/store/0123456789abcdfghijklmnpqrsvwxyz-busybox-1.35
system=/nix/store/123456789abcdfghijklmnpqrsvwxyz0-nixos-system
mkdir -p "$nixos$store/bin" "$nixos$system" "$nixos/bin"
cp /bin/busybox "$nixos$store/bin/"
for name in $(/bin/busybox --list); do
	[ "$name" = busybox ] || ln -s busybox "$nixos$store/bin/$name"
	[ "$name" = busybox ] || ln -s busybox "$alpine/bin/$name"
done
ln -s "$store" "$nixos$system/sw"
ln -s "$system" "$nixos/run/current-system"
ln -s "$store/bin/sh" "$nixos/bin/sh"
ln -s "$store/bin/env" "$nixos/usr/bin/env"

# The user of rootless containers, who exists in this mount namespace alone.
account=4242 ids=200000
for file in passwd group subuid subgid; do cp "/etc/$file" "$work/" 2>/dev/null || : >"$work/$file"; done
echo "nsrun-containers:x:$account:$account::$work/home:/bin/sh" >>"$work/passwd"
echo "nsrun-containers:x:$account:" >>"$work/group"
for file in subuid subgid; do echo "nsrun-containers:$ids:65536" >"$work/$file" && touch "/etc/$file"; done
for file in passwd group subuid subgid; do mount --bind "$work/$file" "/etc/$file"; done
mount --make-rshared / # as podman wants it: within this mount namespace
install -d -o "$account" -g "$account" "$work/home" "$work/runtime" "$work/user"

# crun takes cgroup v1 or v2, and not both.
[ ! -d /sys/fs/cgroup/unified ] || mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup

# It sets no limits that this process may not set.
cat >"$work/containers.conf" <<F
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
F
export CONTAINERS_CONF=$work/containers.conf
docker="--security-opt seccomp=$profile --cap-add MKNOD --cap-add NET_RAW --cap-add AUDIT_WRITE"

# as_account COMMAND... runs it as the user of rootless containers.
as_account() {
	cd "$work/home"
	HOME=$work/home XDG_RUNTIME_DIR=$work/runtime timeout 300 setpriv --reuid $account --regid $account --clear-groups -- "$@"
}

# contain WHO ROOT OPTION... prints what row.sh does in a container.
contain() {
	local who=$1 root=$2 run=() network=(--network none)
	local flags=(run --rm --cgroups=disabled -v "$work/test:/test:ro" -e PATH=/run/current-system/sw/bin:/usr/bin:/bin:/usr/sbin:/sbin) option home=/root
	shift 2
	for option; do
		case $option in
		1000:1000) home=/home/user ;;
		keep-id) home=/keep ;;
		host) network=() ;;
		--read-only) home=/volume ;;
		seccomp=unconfined | --privileged) [ "$who" != docker ] || who=docker-unconfined ;;
		esac
	done
	[ "$root" != debian ] || flags+=(-v /usr:/usr:ro)
	case $who in
	rootless)
		run=(as_account podman --root "$work/user/root" --runroot "$work/user/run")
		[ -d "$work/user/$root" ] || { cp -a "$work/$root" "$work/user/$root" && chown -hR "$account:$account" "$work/user/$root"; }
		install -d -o $account -g $account "$work/user/volume"
		flags+=(-v "$work/user/volume:/volume" -v "$work/user/volume:/keep")
		root=$work/user/$root
		;;
	*)
		run=(timeout 300 podman --root "$work/root" --runroot "$work/run")
		mkdir -p "$work/volume"
		flags+=(-v "$work/volume:/volume")
		# shellcheck disable=SC2206
		[ "$who" != docker ] || flags+=($docker)
		[ "$who" != docker-unconfined ] || flags+=(--cap-add MKNOD --cap-add NET_RAW --cap-add AUDIT_WRITE)
		root=$work/$root
		;;
	esac
	"${run[@]}" "${flags[@]}" "${network[@]}" -e "HOME=$home" "$@" --rootfs "$root:O" /bin/sh /test/row.sh </dev/null 2>&1
}

# on_host WHO FUNCTION prints what row.sh does on a host of hosts.sh.
. test/containers/hosts.sh
on_host() {
	local who=$1 as=(timeout 300) dir=$work/homes/$1-$2
	shift
	mkdir -p "$dir"
	[ "$who" = host ] || { chown $nobody:$nobody "$dir" && as+=(setpriv --reuid $nobody --regid $nobody --clear-groups --); }
	(cd "$dir" && HOME=$dir PATH=$work/test:$PATH PLACE=$work/test "$@" "${as[@]}" /bin/sh "$work/test/row.sh" </dev/null 2>&1)
}

# kube MANIFEST prints what row.sh does in a pod, by podman as an ordinary user. The profile RuntimeDefault is docker's here,
# which is that of containerd and CRI-O; of a manifest this podman takes no seccompProfile, but what was there before.
kube() {
	local group=/sys/fs/cgroup/nsrun-containers podman=(podman --root "$work/user/root" --runroot "$work/user/run") out
	mkdir -p "$group/own"
	chown -R $account:$account "$group"
	sed -e 's#registry.example/agent:1#localhost/agent:1#' -e 's#^    command: .*#    command: ["/bin/sh", "/test/row.sh"]#' "examples/pods/$1" >"$work/pod.yaml"
	! grep -q 'type: Unconfined' "$work/pod.yaml" ||
		sed -i 's#^metadata:#&\n  annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}#' "$work/pod.yaml"
	sed 's#^\[containers\]#&\nseccomp_profile = "'"$profile"'"#' "$work/containers.conf" >"$work/kube.conf"
	if [ ! -e "$work/image.tar" ]; then
		cp -a "$work/test/." "$alpine/test/"
		tar -C "$alpine" -cf "$work/image.tar" .
		as_account "${podman[@]}" import "$work/image.tar" localhost/agent:1 >/dev/null 2>&1
	fi
	(
		echo "$BASHPID" >"$group/own/cgroup.procs"
		export CONTAINERS_CONF=$work/kube.conf
		as_account "${podman[@]}" kube play --network none "$work/pod.yaml" || true
		as_account "${podman[@]}" wait agent-agent || true
		as_account "${podman[@]}" logs agent-agent || true
		as_account "${podman[@]}" kube down "$work/pod.yaml" >/dev/null || true
	) 2>&1
}

failed=0
while IFS='|' read -r name backend root who how; do
	name=${name%% } backend=${backend// /} root=${root// /} who=${who// /}
	case $name in '#'* | '') continue ;; esac
	if [ $# -gt 0 ]; then
		wanted=0
		for pattern; do [[ $name != $pattern ]] || wanted=1; done
		[ $wanted = 1 ] || continue
	fi
	# shellcheck disable=SC2086
	case $who in
	host | user) out=$(on_host "$who" $how) ;;
	kube) out=$(kube $how) ;;
	*) out=$(contain "$who" "$root" $how) ;;
	esac || true
	line=$(grep '^row|' <<<"$out" | cut -c5-) || line="WRONG: $(tail -n 3 <<<"$out" | tr '\n' ' ')"
	[[ $line == "$backend|"* && $line != *WRONG* ]] || failed=1
	echo "| $name | ${line//|/ | } |"
	[ -z "${NSRUN_CONTAINERS_WHY:-}" ] || grep '^why|' <<<"$out" || true
done <test/containers/rows
exit "$failed"
