#!/bin/sh
# Usage: row.sh
#
# What nsrun does on this host, in one line of cells: "backend|files|processes|network rules|sessions|limits|watcher|attacks".
# A cell is what holds, "no" where nsrun says in one line why not and what to do, or "WRONG: …". It takes no more than a
# POSIX shell and busybox's programs.
test=${PLACE:-/test} PATH=$PATH:${PLACE:-/test}
cd "$HOME" 2>/dev/null || cd "${XDG_STATE_HOME:?}" || exit 1
mkdir -p .ssh out project && echo secret >.ssh/id && echo f >out/f && here=$PWD && cd project || exit 1
echo a >a
logs=$(mktemp -d) && log=$logs/log report=$logs/report || exit 1

# of KEY prints the first value of a key of the report.
of() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" $report 2>/dev/null | head -n 1; }

# refused: nsrun ran nothing, and said why and what to do in one line of the log.
refused() {
	[ "$1" = 125 ] && [ "$(grep -c . $log)" = 1 ] && grep -q '^nsrun: .*(.*\(try: \|it needs \|: run the command directly\)' $log
}

# wrong STATUS: a cell for what should not be.
wrong() { echo "WRONG: status $1: $(tail -n 2 $log | tr '\n|' ' /')"; }

# cell GOOD COMMAND...: it holds, or is refused in words.
cell() {
	good=$1
	shift
	"$@" >$log 2>&1 </dev/null
	status=$?
	if [ $status = 0 ]; then eval "echo \"$good\""; elif refused $status; then echo no; echo "why|$(cat $log)" >&2; else wrong $status; fi
}

backend() { nsrun run --discard --report $report -- true; }

files() {
	nsrun run -q --direct --ro "$here/out" -- sh -c '
		echo x >in && cat in "$0/out/f" || exit 9
		! echo x 2>/dev/null >>"$0/out/f" || exit 10
		! cat "$1" 2>/dev/null || exit 11' "$here" "${HOME:-/none}/.ssh/id" || return
	[ "$(cat in)" = x ] && [ "$(cat "$here/out/f")" = f ]
}

processes() {
	sleep 1000 &
	outside=$!
	nsrun run -q --direct -- sh -c '! kill -CONT $0 2>/dev/null || exit 9; (sleep 1001 >/dev/null 2>&1 &); exit 0' $outside
	status=$?
	kill $outside || return 12
	[ $status = 0 ] || return $status
	for file in /proc/[0-9]*/cmdline; do
		! tr '\0' ' ' 2>/dev/null <"$file" | grep -q '^[^ ]*sleep 1001' || return 13
	done
}

rules() {
	port=$((4711 + 2 * ($(id -u) % 1000)))
	$test/busybox httpd -f -p 127.0.0.1:$port -h "$PWD" &
	server=$!
	until $test/busybox wget -q -O /dev/null http://127.0.0.1:$port/a 2>/dev/null; do kill -0 $server || return 12; done
	nsrun run -q --direct --allow-net tcp:127.0.0.1:$port -- sh -c '
		[ "$("$1" wget -q -O - http://127.0.0.1:$0/a)" = a ] || exit 9
		! "$1" nc -w 2 127.0.0.1 $(($0 + 1)) </dev/null 2>/dev/null || exit 10' $port $test/busybox
	status=$?
	kill $server
	return $status
}

sessions() {
	nsrun run -q --keep --report $report -- sh -c 'echo b >b; echo changed >a; mkdir d; echo x >d/x; rm in' || return
	[ ! -e b ] && [ -e in ] || return 9
	nsrun commit -q || return
	[ "$(cat a b d/x)" = "$(printf 'changed\nb\nx')" ] && [ ! -e in ] || return 10
	nsrun undo -q || return
	[ "$(cat a)" = a ] && [ ! -e d ] && [ -e in ]
}

limits() {
	nsrun run -q --direct --memory 60M --timeout 30s --report $report -- $test/busybox dd if=/dev/zero of=/dev/null bs=400M count=100000
	status=$?
	[ $status = 137 ] && grep -q 'killed: memory limit 60 MiB reached' $log && return 0
	return $status
}

watcher() { nsrun run --direct --watch -- sh -c 'echo n >n' && grep -q 'written.*n' $log; }

# doctor and run agree.
doctor() {
	nsrun doctor
	status=$?
	case $1 in
	landlock) grep -q '^Commands run without namespaces' $log ;;
	no) [ $status = 1 ] ;;
	*) [ $status = 0 ] && ! grep -q '^Commands run without namespaces' $log ;;
	esac
}

attacks() {
	NSRUN_TEST_HERE=1 NSRUN_TEST_BACKEND=auto $test/nsrun.test -test.v -test.run '^TestAttacks$' -test.count 1
	status=$?
	count=$(sed -n 's/.*: \([0-9]*\) assaults on .*/\1/p' $log) controls=$(sed -n 's/.*: \([0-9]*\) work without.*/\1/p' $log)
	[ $status = 0 ] || { grep -v -e '^=== ' -e '^--- ' -e '^FAIL' -e assaults -e ' work without' -e '  --- ' $log | tail -n 3 >$log.2; cat $log.2 >$log; }
	return $status
}

name=$(cell '$(of backend)' backend)
d=$(cell '' doctor "$name")
line=$name$d
if [ "$name" = no ]; then
	line="$line|no|no|no|no|no|no|no"
else
	line="$line|$(cell yes files)|$(cell yes processes)|$(cell yes rules)|$(cell '$(of engine)' sessions)|$(cell '$(of by)' limits)|$(cell yes watcher)"
	line="$line|$(cell '0 of $count ($controls without)' attacks)"
fi
echo "row|$line"
