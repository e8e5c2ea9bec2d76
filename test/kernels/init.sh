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
ip link set lo up
for module in overlay loop fuse vfat nls_cp437 nls_ascii nls_utf8; do modprobe -q "$module"; done
chown -R user:user /home/user
/test/guest.sh root </dev/null
HOME=/home/user /bin/setpriv --reuid 1000 --regid 1000 --clear-groups /test/guest.sh user </dev/null
for tests in internal-sys netpolicy-broker; do
	if [ "$tests" = netpolicy-broker ] && nsrun doctor | grep -q '^no  *seccomp notification '; then
		echo "skip tests of $tests: no seccomp notification"
		continue
	fi
	skip='TestImage|Swapped|TestWalk$|TestLookup$' # which compare files, or take too long here
	[ "$tests" = netpolicy-broker ] && only='TestLocal|TestWithoutLandlock|TestExchange' || only=.
	if out=$(cd /tmp && NSRUN_TEST_ONCE=1 timeout 300 "/test/$tests" -test.run "$only" -test.skip "$skip" 2>&1); then
		echo "ok tests of $tests"
	else
		echo "FAIL tests of $tests: $(echo "$out" | grep -E '^ *--- FAIL|_test.go' | head -8 | tr '\n' ';')"
	fi
done
echo 'all done'
sync
poweroff -f
