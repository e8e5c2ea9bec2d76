#!/usr/bin/env bash
# Drives `nsrun mcp` with a client that is not Go's: the TypeScript SDK's, from npm, by
# client.mjs. As root it is done as an ordinary user, too; then all runs in namespaces of
# its own, without network.
#
#     run.sh [NSRUN]
#
# nsrun-mcp has to be beside NSRUN.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"

version=1.32.2
nsrun=$(realpath "${1:-$here/../../nsrun}")
[ -x "$nsrun" ] && [ -x "$nsrun-mcp" ] || die "$nsrun and $nsrun-mcp are not there: make build"
modules=$(cache "mcp-$version")
npm_packages "$modules" "@modelcontextprotocol/sdk@$version"
command -v node >/dev/null || packages nodejs

# Not below /tmp, which sandboxes hide; ordinary users have to get there.
work=$(mktemp -d /var/tmp/nsrun-mcp.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$nsrun" "$nsrun-mcp" "$here/client.mjs" "$work/"
chmod -R a+rX "$work"

# drive NAME [COMMAND...]: the client, under COMMAND, with a home directory and a project.
drive() {
	local name=$1 dir=$work/$1
	shift
	mkdir -p "$dir/home" "$dir/project"
	is_root && [ "$name" = user ] && chown -R $nobody:$nobody "$dir"
	if "$@" env -i HOME="$dir/home" PATH="$PATH" LC_ALL="$LC_ALL" \
		timeout -k 5 120 node "$work/client.mjs" "$modules" "$work/${nsrun##*/}" "$dir/project" >"$work/log" 2>&1; then
		echo "ok mcp: TypeScript SDK $version, as $name"
	else
		echo "not ok mcp: TypeScript SDK $version, as $name"
		sed 's/^/       /' "$work/log"
		bad=1
	fi
}

bad=0
if is_root; then
	packages util-linux iproute2
	apart() { unshare --mount --propagation private --net --ipc --pid --fork --kill-child --mount-proc \
		bash -c 'ip link set lo up; exec "$@"' bash "$@"; }
	drive root apart
	drive user apart setpriv --reuid $nobody --regid $nobody --clear-groups --inh-caps=-all
else
	drive user
fi
exit $bad
