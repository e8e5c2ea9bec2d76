#!/bin/bash
# Usage: guest.sh WHO
#
# What nsrun does on this kernel: one line for each thing, "ok", "FAIL" or "skip" with a reason that doctor gives. WHO is
# root, user, delegated for limits in a cgroup of the user's own, login for limits in one that systemd makes, the setting by which users have no namespaces, apparmor
# under a profile that allows none, or apparmor= with nsrun's profile.
who=$1
cd "$HOME" || exit 1
mkdir -p project && cd project || exit 1
echo a >a

# lacks FEATURE...: doctor says that one is missing.
doctor=$(nsrun doctor 2>&1)
lacks() {
	local name
	for name; do
		grep -q "^no  *$name  " <<<"$doctor" && echo "$name" && return
	done
	return 1
}

# try NAME COMMAND: it succeeds.
try() {
	local name=$1 out status
	shift
	out=$("$@" 2>&1)
	status=$?
	if [ $status = 0 ]; then echo "ok $who: $name"; else echo "FAIL $who: $name: status $status: $(tail -n 2 <<<"$out" | tr '\n' ' ')"; fi
}

# says NAME WORDS COMMAND: it fails, in one line with these words.
says() {
	local name=$1 words=$2 out status
	shift 2
	out=$("$@" 2>&1)
	status=$?
	if [ $status = 125 ] && grep -q -- "$words" <<<"$out" && [ "$(wc -l <<<"$out")" = 1 ]; then
		echo "ok $who: $name"
	else
		echo "FAIL $who: $name: status $status: $(tail -n 2 <<<"$out" | tr '\n' ' ')"
	fi
}

session() {
	nsrun run --keep "$@" -- sh -c 'echo b >b; echo changed >a; mkdir d; echo x >d/x; ln -s ../a d/l; rm -f gone' &&
		[ ! -e b ] && nsrun commit -q && [ "$(cat a b d/l)" = "$(printf 'changed\nb\nchanged')" ] && nsrun undo && [ "$(cat a)" = a ] && [ ! -e d ]
}

# What a command must not do, with what it is tried in: it works outside (the control), and not inside.
assaults() {
	local port=$((5711 + 2 * UID)) server name command
	mkdir -p ~/.ssh && echo secret >~/.ssh/id && echo kept >~/kept
	sleep 1000 &
	local victim=$!
	httpd -f -p "127.0.0.1:$port" -h "$HOME/project" &
	server=$!
	until : 2>/dev/null >"/dev/tcp/127.0.0.1/$port"; do :; done
	while IFS='|' read -r name command; do
		command=${command//PORT/$port} command=${command//VICTIM/$victim}
		if ! bash -c "$command" >/dev/null 2>&1 </dev/null; then
			echo "FAIL $who: $name does not work outside"
		elif nsrun run -q --discard "$@" -- bash -c "$command && echo won" 2>&1 </dev/null | grep -q '^won$'; then
			echo "FAIL $who: $name works inside: $*"
		else
			echo "ok $who: $name $*"
		fi
	done <<-'END'
		reading a secret|cat ~/.ssh/id
		changing a secret|echo more >>~/.ssh/id
		another process's memory|cat /proc/VICTIM/maps
		a signal to another process|kill -0 VICTIM
		another process's environment|cat /proc/VICTIM/environ
		the host's loopback device|: >/dev/tcp/127.0.0.1/PORT
		looking into another process|ls /proc/VICTIM/fd /proc/VICTIM/root
	END
	kill $server $victim
}

# limits: each of them ends what goes beyond it, by a cgroup.
limits() {
	nsrun doctor | grep -q '^yes  *cgroup controllers ' || return
	nsrun run -q --discard --memory 40M -- sh -c 'x=$(head -c 100000000 /dev/zero | tr "\0" x); echo ${#x}' 2>&1 | grep -q 100000000 && return 1
	nsrun run -q --discard --pids 10 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done; wait' && return 1
	nsrun run -q --discard --cpus 0.5 --memory 100M --pids 50 -- true
}

without_namespaces() {
	if feature=$(lacks "landlock scopes" "seccomp notification"); then
		says "run" "no user namespaces\|not permitted\|no space left" nsrun run --discard -- true
		return
	fi
	nsrun run --discard --report /tmp/report.$UID -- true 2>/dev/null
	try "backend landlock by itself" grep -q '"backend": *"landlock"' "/tmp/report.$UID"
	try "commit, undo" session
	assaults
}

case $who in
login-undelegated)
	# As systemd is configured itself: its services have no processors to share out, unless it is newer.
	try "limits" nsrun run -q --discard --memory 100M --pids 50 --report /tmp/report -- true
	try "systemd makes the cgroup" test "$(grep -c '"cgroup v2"' /tmp/report)" -ge 2
	grep -q cpu "/sys/fs/cgroup/user.slice/user-$UID.slice/user@$UID.service/cgroup.controllers" ||
		says "processors" "controller cpu, which systemd gives to no user's services here (try: sudo nsrun doctor --fix," nsrun run --discard --cpus 1 -- true
	exit
	;;
login)
	# In a cgroup of root's: systemd makes another one.
	if [ -w "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)" ]; then echo "FAIL $who: its cgroup is the user's"; fi
	try "doctor" sh -c "nsrun doctor | grep -q '^yes  *cgroup controllers '"
	try "limits" limits
	nsrun run -q --discard --memory 50M --pids 20 --cpus 0.7 --report /tmp/report -- true
	try "what holds them is named" test "$(grep -c '"cgroup v2"' /tmp/report)" -ge 3
	try "the memory limit is named" sh -c 'nsrun run --discard --memory 40M -- tail /dev/zero 2>&1 | grep "memory limit 40 MiB reached"'
	try "tests of userscope" env NSRUN_MUST_WORK="user manager" /test/userscope
	try "tests of limiter" env NSRUN_MUST_WORK="cgroup controllers" /test/limiter -test.run 'TestLater|TestOutside'
	if [ -S "/run/user/$UID/bus" ]; then
		mv "/run/user/$UID/systemd/private" "/run/user/$UID/hidden"
		try "by the message bus" sh -c 'nsrun run -q --discard --cpus 0.7 --report /tmp/report -- true && grep -q "cgroup v2" /tmp/report'
		mv "/run/user/$UID/hidden" "/run/user/$UID/systemd/private"
	fi
	try "many at once" sh -c 'for i in 1 2 3 4 5 6 7 8; do nsrun run -q --discard --pids 5$i -- sleep 1 & p="$p $!"; done; for i in $p; do wait $i || exit; done'
	lacks "landlock scopes" >/dev/null || try "Landlock" nsrun run -q --discard --backend landlock --pids 20 -- true
	nsrun run -q --discard --memory 40M -- sh -c 'echo $PPID; exec sleep 1000' >/tmp/killed &
	until [ -s /tmp/killed ]; do :; done
	kill -9 $!
	wait $! 2>/dev/null
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		left=$(find /sys/fs/cgroup/user.slice -name 'nsrun-*')
		[ -z "$left" ] || sleep 1
	done
	if [ -z "$left" ]; then echo "ok $who: no cgroup is left"; else echo "FAIL $who: cgroups are left: $left"; fi
	exit
	;;
delegated)
	try "limits" limits
	exit
	;;
*=0)
	without_namespaces
	exit
	;;
apparmor)
	without_namespaces
	says "the rule that the profile lacks" 'user namespaces.*the rule "userns," to AppArmor.s profile restricted' \
		nsrun run --backend native --discard -- true
	exit
	;;
apparmor=*)
	label=$(nsrun run -q --discard -- cat /proc/self/attr/apparmor/current)
	try "a profile of its own" grep -q '^nsrun' <<<"$label"
	try "commit, undo" session
	try "direct" nsrun run -q --backend native --direct -- sh -c 'echo z >z && rm z'
	if [ "$who" = apparmor=nsrun-strict ]; then
		try "its command's profile" [ "$label" = 'nsrun//&nsrun_command (enforce)' ]
		try "no user namespaces" nsrun run -q --allow-userns --discard -- sh -c '! unshare -U true'
	else
		try "user namespaces" nsrun run -q --allow-userns --discard -- unshare -U true
	fi
	assaults
	exit
	;;
esac

try doctor nsrun doctor
try run nsrun run --discard -- sh -c 'echo b >b && [ "$(cat a)" = a ]'
try "status" sh -c 'nsrun run --discard -- sh -c "exit 7"; [ $? = 7 ]'
try "commit, undo" session
try "engine copy" session --engine copy
if feature=$(lacks "tmpfs attributes"); then
	says "engine tmpfs" "no tmpfs attributes: .*it needs Linux 6.6" nsrun run --engine tmpfs --discard -- true
else
	try "engine tmpfs" session --engine tmpfs
fi
if feature=$(lacks overlay); then
	echo "skip $who: engine overlay: no $feature"
	try "explaining without overlays" sh -c 'nsrun run --explain -- true >explained && ! grep "^overlay " explained'
	rm -f explained
else
	try "engine overlay" session --engine overlay
fi
mkdir -p 'a,b' && try "a comma" sh -c 'cd a,b && nsrun run --discard --engine copy -- true && nsrun run --discard -- sh -c "echo x >x"'
assaults
if feature=$(lacks "landlock scopes" "seccomp notification"); then
	says "backend landlock" "no $feature: .*it needs Linux" nsrun run --backend landlock --discard -- true
else
	try "backend landlock" session --backend landlock
	assaults --backend landlock
fi
if [ "$who" = user ]; then
	if feature=$(lacks "locked layers"); then
		says "nsrun in nsrun" "no $feature: .*it needs Linux" nsrun run --discard --allow-userns -- true
	else
		try "nsrun in nsrun" nsrun run -q --discard --allow-userns -- nsrun run -q --discard --allow-userns -- nsrun run -q --discard -- sh -c 'echo b >b'
	fi
fi
try direct nsrun run --direct -- sh -c 'echo z >z && rm z'
try "bwrap" nsrun --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp sh -c 'echo x >/tmp/x && ! echo x >/x'
try "disable-userns" nsrun --unshare-user --disable-userns --ro-bind / / --dev /dev --proc /proc true

watched() { nsrun run --discard --watch -- sh -c 'echo more >>a; echo n >n' 2>&1 | grep -q 'written.*a\|a.*written'; }
if feature=$(lacks overlay); then echo "skip $who: watch: no $feature"; else try "watch" watched; fi

# Rules: what is allowed is reached, what is not is refused, and unix sockets work beside them.
port=$((4711 + 2 * UID)) # each has its own
httpd -f -p "127.0.0.1:$port" -h "$HOME/project" &
server=$!
rules() {
	nsrun run --discard --allow-net "tcp:127.0.0.1:$port" -- bash -c ': >/dev/tcp/127.0.0.1/$0 && ! : 2>/dev/null >/dev/tcp/127.0.0.1/$(($0 + 1))' "$port"
}
# And what a command is told of that is hidden.
why() {
	echo s >blocked
	nsrun run --discard --why --block blocked -- cat blocked 2>&1 | grep -q 'denied: read of .*/blocked: '
}
if feature=$(lacks "seccomp notification"); then
	says "why" "no seccomp notification: .*it needs Linux 5.14" nsrun run --discard --why -- true
	says "rules" "no seccomp notification: .*it needs Linux 5.14" nsrun run --discard --allow-net "tcp:127.0.0.1:$port" -- true
else
	until : 2>/dev/null >"/dev/tcp/127.0.0.1/$port"; do kill -0 "$server" || break; done
	try "rules" rules
	try "why" why
fi
kill $server 2>/dev/null

# A home and a project on FAT, which has neither links nor attributes.
if [ "$who" = root ] && mkdir -p /mnt/fat && mount -t vfat -o loop /test/fat.img /mnt/fat; then
	mkdir -p /mnt/fat/home /mnt/fat/project
	fat() {
		cd /mnt/fat/project && echo a >a
		HOME=/mnt/fat/home XDG_STATE_HOME=/mnt/fat/home nsrun run --keep -- sh -c 'echo b >b; ln -s a l; echo changed >a' || return
		HOME=/mnt/fat/home XDG_STATE_HOME=/mnt/fat/home nsrun commit -q
		[ "$(cat a b)" = "$(printf 'changed\nb')" ] && [ ! -e l ]
	}
	try "FAT" fat
	# Its clock has steps of two seconds.
	late() {
		echo a >late
		HOME=/mnt/fat/home XDG_STATE_HOME=/mnt/fat/home nsrun run --keep -- sh -c 'echo changed >late'
		echo mine >late
		! HOME=/mnt/fat/home XDG_STATE_HOME=/mnt/fat/home nsrun commit -q && [ "$(cat late)" = mine ]
	}
	try "FAT, a conflict" late
	cd "$HOME/project" && umount /mnt/fat
else
	[ "$who" = user ] || echo "skip $who: FAT: it cannot be mounted"
fi
