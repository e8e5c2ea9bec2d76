#!/usr/bin/env bash
# Runs programs that call bwrap, with nsrun in its place. They are installed by name;
# their jobs run without network, in namespaces of their own, so that nothing of the
# machine's is touched and nothing stays. Root is needed for that; the jobs run as an
# ordinary user.
#
#     run.sh [--keep DIR] [--nsrun FILE] [CLIENT...]
#
# (A real bwrap as FILE shows whether a job is right.) A client is a file beside this
# one, client-NAME.sh, with
#
#     get       installs it and sets version; ends with 77 where it cannot be had
#     what      what the job is, in words
#     calls     a word that has to be among the arguments of a call of bwrap
#     prepare   what takes root, if anything does; gone after the job
#     job       does the job as an ordinary user, and checks the outcome
#
# A job counts if it succeeds with nsrun, if nsrun was called for it, and if it fails
# with a bwrap that does nothing but fail: a program that goes on without its sandbox
# proves nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"

keep='' nsrun=$here/../../nsrun
while [ $# -gt 0 ]; do
	case $1 in
	--keep) keep=$2; shift 2 ;;
	--nsrun) nsrun=$2; shift 2 ;;
	*) break ;;
	esac
done
if [ $# = 0 ]; then
	for f in "$here"/client-*.sh; do
		f=${f##*/client-}
		set -- "$@" "${f%.sh}"
	done
fi

[ -x "$nsrun" ] || die "$nsrun is not there: make build"
if ! is_root; then
	[ -z "${NSRUN_MUST_WORK:-}" ] || die "root must work here: namespaces and packages need it"
	unavailable "other programs with nsrun as bwrap: $*: they need root"
fi
packages util-linux mount iproute2 bubblewrap

# Not below /tmp, which sandboxes hide; ordinary users have to get there.
work=$(mktemp -d /var/tmp/nsrun-clients.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
[ -n "$keep" ] || keep=$work/out
mkdir -p "$keep" "$work/nsrun" "$work/broken" "$work/test"
cp -r "$here" "$here/../lib.sh" "$work/test/"
chmod -R a+rX "$work/test"
cp "$nsrun" "$work/nsrun/nsrun"
CGO_ENABLED=0 go build -C "$here/recorder" -o "$work/nsrun/bwrap" \
	-ldflags="-s -w -X main.target=$work/nsrun/nsrun -X main.record=$work/calls" .
printf '#!/bin/sh\necho "bwrap: broken on purpose" >&2\nexit 1\n' >"$work/broken/bwrap"
chmod 755 "$work/nsrun/nsrun" "$work/nsrun/bwrap" "$work/broken/bwrap"

# job CLIENT BINARY: the job, in namespaces of its own. What they begin with is in
# inside.sh.
job() {
	: >"$work/calls"
	chmod 666 "$work/calls"
	timeout -k 5 120 unshare --mount --propagation private --net --ipc --pid --fork --kill-child --mount-proc \
		bash "$work/test/clients/inside.sh" "$1" "$work" "$work/$2" >"$keep/$1.$2" 2>&1 </dev/null
}

bad=0
for client in "$@"; do
	[ -e "$here/client-$client.sh" ] || die "no such client: $client"
	status=0
	about=$(
		. "$here/client-$client.sh"
		get >&2
		[ -n "$version" ] || exit 1
		printf '%s\n%s\n%s\n' "$version" "$what" "$calls"
	) || status=$?
	if [ $status = 77 ]; then
		echo "SKIPPED: $client: it cannot be had here" >&2
		continue
	elif [ $status != 0 ]; then
		echo "not ok $client: it cannot be installed"
		bad=1
		continue
	fi
	{ read -r version; read -r what; read -r word; } <<<"$about"
	name="$client $version"
	if ! job "$client" nsrun; then
		echo "not ok $name: the job failed ($what)"
		tail -n 20 "$keep/$client.nsrun" | sed 's/^/       /'
		tail -n 3 "$work/calls" | sed 's/^/       called: bwrap /'
		bad=1
		continue
	fi
	cp "$work/calls" "$keep/$client.calls"
	n=$(wc -l <"$keep/$client.calls")
	if ! grep -qF -- "\"$word\"" "$keep/$client.calls"; then
		echo "not ok $name: bwrap was called $n times, and never with $word"
		bad=1
	elif job "$client" broken; then
		echo "not ok $name: the job succeeded without a sandbox"
		bad=1
	else
		echo "ok $name ($what; $n calls)"
	fi
done
exit $bad
