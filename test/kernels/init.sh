#!/bin/sh
# The first process in the kernel under test.
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm /sys/fs/cgroup
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t cgroup2 none /sys/fs/cgroup
for fd in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do [ -e "/dev/${fd%:*}" ] || ln -s "/proc/self/${fd#*:}" "/dev/${fd%:*}"; done
ip link set lo up
for module in overlay loop fuse vfat nls_cp437 nls_ascii nls_utf8; do modprobe -q "$module"; done
chown -R user:user /home/user

# By its path: busybox's shell has one of its own.
setpriv=/usr/bin/setpriv
[ -x $setpriv ] || setpriv=/bin/setpriv
as_user() { HOME=/home/user $setpriv --reuid 1000 --regid 1000 --clear-groups "$@" </dev/null; }

# delegated COMMAND: as an ordinary user, in a cgroup that is the user's, as systemd's user managers have it.
delegated() {
	for dir in /sys/fs/cgroup /sys/fs/cgroup/user; do
		mkdir -p "$dir"
		echo '+cpu +memory +pids' >"$dir/cgroup.subtree_control" || return
	done
	mkdir -p /sys/fs/cgroup/user/app
	for name in '' /cgroup.procs /cgroup.subtree_control /cgroup.threads; do
		chown user:user "/sys/fs/cgroup/user$name" "/sys/fs/cgroup/user/app$name"
	done
	(sh -c 'echo $PPID' >/sys/fs/cgroup/user/app/cgroup.procs && as_user "$@")
}

# tests PACKAGE...: tests of packages that need no programs.
tests() {
	skip='TestImage|Swapped|TestWalk$|TestLookup$' # which compare files, or take too long here
	for tests; do
		if [ "$tests" = netpolicy-broker ] && nsrun doctor | grep -q '^no  *seccomp notification '; then
			echo "skip tests of $tests: no seccomp notification"
			continue
		fi
		case $tests in
		netpolicy-broker) only='TestLocal|TestWithoutLandlock|TestExchange' once=1 ;;
		nsexec) only=TestFixedRoot once= ;;
		*) only=. once=1 ;;
		esac
		if out=$(cd /tmp && NSRUN_TEST_ONCE=$once timeout 900 "/test/$tests" -test.run "$only" -test.skip "$skip" 2>&1); then
			echo "ok tests of $tests"
		else
			echo "FAIL tests of $tests: $(echo "$out" | grep -E '^ *--- FAIL|_test.go' | head -8 | tr '\n' ';')"
		fi
	done
}

if [ -e /test/settings ]; then
	/test/suite.sh
	echo 'all done'
	sync
	busybox poweroff -f
fi

/test/guest.sh root </dev/null
as_user /test/guest.sh user
delegated /test/guest.sh delegated
# Nobody but root makes user namespaces; then nobody at all.
if [ -e /proc/sys/kernel/unprivileged_userns_clone ]; then
	echo 0 >/proc/sys/kernel/unprivileged_userns_clone
	as_user /test/guest.sh unprivileged_userns_clone=0
	echo 1 >/proc/sys/kernel/unprivileged_userns_clone
fi
echo 0 >/proc/sys/user/max_user_namespaces
as_user /test/guest.sh max_user_namespaces=0
echo 10000 >/proc/sys/user/max_user_namespaces
# A profile that allows no user namespaces, and then nsrun's own profiles for it.
security=/sys/kernel/security
mount -t securityfs none $security 2>/dev/null
if grep -qs userns_create $security/apparmor/features/namespaces/mask && [ -d /test/apparmor ]; then
	load() { /test/apparmor/lib/ld-linux-x86-64.so.2 --library-path /test/apparmor/lib /test/apparmor/apparmor_parser -r "/test/apparmor/$1"; }
	restricted() { as_user sh -c 'echo "exec restricted" >/proc/self/attr/exec && exec sh -c "/test/guest.sh $0; exit" "$@"' "$@"; }
	load restricted && restricted apparmor
	load nsrun && restricted apparmor=nsrun
	load nsrun-strict && restricted apparmor=nsrun-strict
else
	echo "skip user: AppArmor: this kernel does not restrict user namespaces by it"
fi
tests internal-sys netpolicy-broker
# Where the root is an initramfs, the root of a sandbox covers it.
grep -q ' / / .* rootfs ' /proc/self/mountinfo && tests nsexec
echo 'all done'
sync
busybox poweroff -f
