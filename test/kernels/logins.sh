#!/bin/bash
# Run by systemd in the kernel under test: guest.sh in logins of the user's, whose cgroup belongs to root.
exec >/dev/ttyS0 2>&1
login() {
	systemd-run -q --wait --pipe -p User=user -p PAMName=nsrun-test -p Environment=HOME=/home/user /test/guest.sh "$1" </dev/null && return
	echo "FAIL $1: status $?"
	journalctl -b --no-pager -n 40
}
chown -R user:user /home/user
login login-undelegated
systemctl stop user@1000.service
# The file that nsrun doctor --fix writes.
install -d /etc/systemd/system/user@.service.d
nsrun doctor --fix --print | sed -n '/Delegate=/ { s/^ *//; i [Service]
p }' >/etc/systemd/system/user@.service.d/nsrun.conf
systemctl daemon-reload
login login
echo 'all done'
sync
busybox poweroff -f
