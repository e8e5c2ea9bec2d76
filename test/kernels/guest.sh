#!/bin/bash
# Usage: guest.sh WHO
#
# What nsrun does on this kernel: one line for each thing, "ok", "FAIL" or "skip" with a reason that doctor gives.
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

try doctor nsrun doctor
try run nsrun run --discard -- sh -c 'echo b >b && [ "$(cat a)" = a ]'
try "status" sh -c 'nsrun run --discard -- sh -c "exit 7"; [ $? = 7 ]'
try "commit, undo" session
try "engine copy" session --engine copy
if feature=$(lacks "tmpfs attributes"); then
	says "engine tmpfs" "no tmpfs attributes: .*it takes Linux 6.6" nsrun run --engine tmpfs --discard -- true
else
	try "engine tmpfs" session --engine tmpfs
fi
if feature=$(lacks overlay); then echo "skip $who: engine overlay: no $feature"; else try "engine overlay" session --engine overlay; fi
mkdir -p 'a,b' && try "a comma" sh -c 'cd a,b && nsrun run --discard --engine copy -- true && nsrun run --discard -- sh -c "echo x >x"'
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
if feature=$(lacks "seccomp notification"); then
	says "rules" "no seccomp notification: .*it takes Linux 5.14" nsrun run --discard --allow-net "tcp:127.0.0.1:$port" -- true
else
	sleep 1
	try "rules" rules
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
	cd "$HOME/project" && umount /mnt/fat
else
	[ "$who" = user ] || echo "skip $who: FAT: it cannot be mounted"
fi
