#!/usr/bin/env bash
# Runs bubblewrap 0.12's own tests, and those of Debian's package, against nsrun
# called as bwrap. As root: as root, and once more as an ordinary user.
#
#     run.sh [NSRUN]             nsrun in the place of bwrap; default: ./nsrun
#     run.sh --control           the real bwrap alone
#     run.sh --keep DIR [NSRUN]  keep what the tests print
#
# The real bwrap runs the same tests first, and every result has to be the same, skips
# too: so what this machine cannot do is not held against nsrun, and nothing is skipped
# for its sake. The real one may fail in nothing but the known tests.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"

# On Python 3.11 these crash in the test's own helper, whatever the binary.
known='test_tmpfs test_tmpfs_perms test_tmpfs_size'

# What is called by name comes from Debian, as /usr/bin/python3 does.
plain_path=/usr/sbin:/usr/bin:/sbin:/bin

control='' keep=''
while [ $# -gt 0 ]; do
	case $1 in
	--control) control=1; shift ;;
	--keep) keep=$2; shift 2 ;;
	*) break ;;
	esac
done
nsrun=${1:-$here/../../nsrun}

real=$("$here/fetch.sh") || { [ $? != 77 ] || unavailable "bubblewrap's own tests: the real bwrap cannot be had"; exit 1; }
packages bash python3 python3-seccomp strace libcap2-bin util-linux mount procps iproute2 perl libipc-run-perl

# Not below /tmp, which the tests hide; the ordinary user has to get there too.
work=$(mktemp -d /var/tmp/nsrun-bwrap.XXXXXX)
group=
cleanup() {
	# A test that fails leaves loops in the background.
	[ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
chmod 755 "$work"
[ -n "$keep" ] || keep=$work/out
mkdir -p "$keep" "$work/real" "$work/nsrun"
ln -s "$real/bwrap" "$work/real/bwrap"
who=(user)
if is_root; then
	who=(root user)
elif [ -n "${NSRUN_MUST_WORK:-}" ]; then
	die "root must work here: the tests as root need it"
else
	echo "SKIPPED: bubblewrap's own tests as root" >&2
fi
mkdir -m 700 "$work/home"
if is_root; then chown $nobody:$nobody "$work/home"; fi

# What a command as that user begins with.
as_root=(env)
as_user=(env)
if is_root; then
	as_user=(env -u TMPDIR -u XDG_RUNTIME_DIR HOME="$work/home" USER=nobody LOGNAME=nobody
		setpriv --reuid $nobody --regid $nobody --clear-groups --inh-caps=-all)
fi

bad=0
wrong() { echo "not ok  $*"; bad=1; }

# one WHO BINARY NAME COMMAND...: runs a test with BINARY as bwrap, and says what
# became of it. What it printed is in $keep.
one() {
	local -n as=as_$1
	local binary=$2 test=$1.$3 out=$keep/$2.$1.$3 status=0
	shift 3
	# timeout makes a process group. The slowest takes five seconds.
	(cd /var/tmp && PATH=$work/$binary:$plain_path exec "${as[@]}" timeout -k 5 60 "$@") >"$out.out" 2>"$out.err" </dev/null &
	group=$!
	wait "$group" || status=$?
	kill -KILL -- "-$group" 2>/dev/null || true
	group=

	local plan count failed skipped known_failure=
	plan=$(sed -nE 's/^1\.\.([0-9]+).*/\1/p' "$out.out" | tail -n 1)
	count=$(grep -cE '^(ok|not ok) ' "$out.out" || true)
	skipped=$(grep -ciE '^ok .*# *skip' "$out.out" || true)
	failed=$(sed -nE 's/^not ok ([0-9]+)$/\1/p; s/^not ok [0-9]+ *-? *//p' "$out.out" | paste -s -d ' ')
	case $test in
	*.test-sandbox.py) [ "$failed" != "$known" ] || known_failure=1 ;;
	esac
	grep -E '^(ok|not ok|1\.\.)' "$out.out" >"$out.results" || true

	if [ "$status" = 124 ] || [ "$status" = 137 ]; then
		wrong "$binary $test: hung, after $count results"
	elif [ "${plan:-0}" = 0 ] || [ "$plan" != "$count" ]; then
		wrong "$binary $test: only $count${plan:+ of $plan} tests ran, exit status $status"
	elif [ -z "$known_failure" ] && { [ "$status" != 0 ] || [ -n "$failed" ]; }; then
		wrong "$binary $test: exit status $status, failed: $failed"
	elif [ "${test#*.}" = test-seccomp.py ] && ! { grep -q '^Ran 6 tests' "$out.err" && grep -qx OK "$out.err"; }; then
		# It says ok too when it did nothing.
		wrong "$binary $test: its 6 tests did not all run"
	elif ! diff "$keep/real.$test.results" "$out.results" >"$out.diff"; then
		wrong "$binary $test: other results than the real one's"
		sed 's/^/        /' "$out.diff"
		return
	else
		echo "ok      $binary $test: $count, skipped $skipped${known_failure:+, known to fail: $failed}"
		return
	fi
	tail -n 12 "$out.err" | sed 's/^/        /'
}

# every WHO BINARY runs all tests.
every() {
	local t
	local -x BWRAP_MUST_WORK=1 G_TEST_SRCDIR=$real/src G_TEST_BUILDDIR=$real/build
	local -x BWRAP=$work/$2/bwrap
	for t in test-run.sh test-specifying-pidns.sh test-specifying-userns.sh; do
		one "$1" "$2" $t bash "$real/src/tests/$t"
	done
	# Debian's own Python, because that one has the module.
	for t in test-sandbox.py test-seccomp.py; do
		one "$1" "$2" $t /usr/bin/python3 "$real/src/tests/$t"
	done
	# Debian's tests take bwrap from PATH. As root userns fails with the real one too:
	# it wants the files of root to be nobody's.
	unset BWRAP
	for t in basic dev net userns; do
		[ "$1 $t" = "root userns" ] || one "$1" "$2" debian-$t perl "$real/src/debian/tests/$t"
	done
	t=upstream
	[ "$1" = user ] || t=upstream-as-root
	one "$1" "$2" debian-$t sh -c 'cd "$1" && exec sh debian/tests/"$2"' sh "$real/src" $t
}

binaries=(real)
if [ -z "$control" ]; then
	[ -x "$nsrun" ] || die "$nsrun is not there: make build"
	cp "$nsrun" "$work/nsrun/bwrap"
	chmod 755 "$work/nsrun/bwrap"
	binaries+=(nsrun)
fi
for b in "${binaries[@]}"; do
	for w in "${who[@]}"; do every "$w" "$b"; done
done
exit $bad
