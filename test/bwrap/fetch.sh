#!/usr/bin/env bash
# Builds the real bubblewrap 0.12 from Debian's source package, with its tests, to
# compare with. It is built once and kept in a cache; see `cache` in test/lib.sh.
#
#     fetch.sh          makes it if it is not there, prints its directory
#     fetch.sh --path   prints the path of the bwrap in it, if it is there
#
# In the directory: bwrap, src (the package's source, patches applied), build (what
# the tests need built). Ends with 77 where the package cannot be had.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# The first release of Debian that has it.
suite=trixie
dir=$(cache bwrap-0.12)

if [ "${1:-}" = --path ]; then
	[ -e "$dir/complete" ] || exit 77
	echo "$dir/bwrap"
	exit
fi
if [ -e "$dir/complete" ]; then
	echo "$dir"
	exit
fi

# libselinux1-dev, because Debian's package is built with it.
packages dpkg-dev debian-archive-keyring build-essential meson ninja-build pkgconf libcap-dev libselinux1-dev >&2

umask 022
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$(dirname "$dir")/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

# This machine's own package sources stay as they are. A private list is derived from
# them: its Debian archives, as source archives of the other release.
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
targets() {
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' | sort -u
}
[ -n "$(targets)" ] || ! is_root || apt-get update -qq >&2 || true
mkdir -p "$tmp/lists/partial" "$tmp/parts" "$tmp/get"
targets | while read -r uri release; do
	case $release in
	"$codename"*)
		echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite${release#"$codename"} main"
		;;
	esac
done >"$tmp/parts/$suite.list"
[ -s "$tmp/parts/$suite.list" ] || unavailable "bubblewrap 0.12: there is no archive of Debian among this machine's package sources"
if is_root; then chown _apt "$tmp/get" "$tmp/lists/partial"; fi # apt downloads as that user
apt=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$tmp/parts"
	-o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
	-o Acquire::Retries=3)

# apt checks the signatures: the archive's on the list, the list's on the files.
# Without network it only warns.
apt-get "${apt[@]}" update -qq >"$tmp/log" 2>&1 || true
version=$(apt-cache "${apt[@]}" showsrc bubblewrap 2>>"$tmp/log" | sed -n 's/^Version: \(0\.12.*\)/\1/p' | sort -Vu | tail -n 1) || true
[ -n "$version" ] || { tail -n 5 "$tmp/log" >&2; unavailable "bubblewrap 0.12: Debian's $suite cannot be reached, or does not have it"; }
(cd "$tmp/get" && apt-get "${apt[@]}" source -qq "bubblewrap=$version") >"$tmp/log" 2>&1 ||
	{ cat "$tmp/log" >&2; unavailable "bubblewrap 0.12: the source package cannot be had"; }

# Built with the flags that Debian builds with, so that timings compare.
new=$tmp/new
mkdir "$new"
mv "$tmp"/get/bubblewrap-*/ "$new/src"
CFLAGS=$(dpkg-buildflags --get CFLAGS)
CPPFLAGS=$(dpkg-buildflags --get CPPFLAGS)
LDFLAGS=$(dpkg-buildflags --get LDFLAGS)
export CFLAGS CPPFLAGS LDFLAGS
{
	meson setup "$tmp/build" "$new/src" --buildtype=plain -Dselinux=enabled -Dman=disabled \
		-Dbash_completion=disabled -Dzsh_completion=disabled -Dtests=true &&
		ninja -C "$tmp/build" bwrap tests/try-syscall
} >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die "bubblewrap $version cannot be built"; }
cp "$tmp/build/bwrap" "$new/bwrap"
mkdir -p "$new/build/tests"
cp "$tmp/build/tests/try-syscall" "$new/build/tests/"
if is_root; then chown -R root:root "$new"; fi
chmod -R a+rX "$new"
echo "$version" >"$new/complete"

# Whoever else was building it meanwhile has made the same.
[ -e "$dir/complete" ] || { rm -rf "$dir" && mv -T "$new" "$dir"; }
echo "$("$dir/bwrap" --version), built from Debian's $version" >&2
echo "$dir"
