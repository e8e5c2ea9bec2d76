# Sourced by the scripts below test/ (bash).
#
# A script ends with status 0 if all is well, 1 if something is wrong, and 77 if
# a package it needs cannot be had here. 77 is the one thing that may be skipped,
# and it is said loudly.

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# What is used in tests as an ordinary user by root.
nobody=65534

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
wrong() { printf 'wrong: %s\n' "$*" >&2; exit 1; } # what is not as it should be
unavailable() { printf 'SKIPPED: %s\n' "$*" >&2; exit 77; }

is_root() { [ "$(id -u)" = 0 ]; }

# installed PACKAGE: whether Debian's package is there, if only what others ask of it may remain to be done.
installed() {
	case $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) in
	installed | triggers-awaited | triggers-pending) ;;
	*) return 1 ;;
	esac
}

# version_of PACKAGE prints the version that is installed.
version_of() { dpkg-query -W -f '${Version}' "$1"; }

# packages NAME... installs what is missing of Debian's packages, as root.
packages() {
	command -v dpkg-query apt-get >/dev/null || unavailable "no Debian here, to install $* on"
	local p log missing=()
	for p in "$@"; do installed "$p" || missing+=("$p"); done
	[ ${#missing[@]} -gt 0 ] || return 0
	is_root || unavailable "packages are missing, and only root can install them: ${missing[*]}"
	echo "installing ${missing[*]}"
	log=$(mktemp)
	if ! apt_install "${missing[@]}" >"$log" 2>&1; then
		# The lists may be old, or not there at all.
		apt-get update -qq -o Acquire::Retries=3 >>"$log" 2>&1 || true
		if ! apt_install "${missing[@]}" >>"$log" 2>&1; then
			tail -n 5 "$log" >&2
			rm -f "$log"
			unavailable "these packages cannot be installed: ${missing[*]}"
		fi
	fi
	rm -f "$log"
}

apt_install() {
	apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null
}

# cache NAME prints the directory in which NAME is kept between runs. Root's can be
# read by all: what is in it is run as an ordinary user too.
cache() {
	local dir=/var/cache/nsrun-test
	if [ -n "${NSRUN_TEST_CACHE:-}" ]; then
		dir=$NSRUN_TEST_CACHE
	elif ! is_root && ! [ -e "$dir/$1/complete" ]; then
		dir=${XDG_CACHE_HOME:-${HOME:?}/.cache}/nsrun-test
	fi
	printf '%s/%s\n' "$dir" "$1"
}

# npm_packages DIR NAME@VERSION... installs packages of npm below DIR.
npm_packages() {
	local dir=$1 log
	shift
	[ ! -e "$dir/complete" ] || return 0
	command -v npm >/dev/null || packages npm
	log=$(mktemp)
	echo "installing $*"
	rm -rf "$dir"
	mkdir -p "$dir"
	if ! npm install --prefix "$dir" --no-audit --no-fund --ignore-scripts --loglevel=error "$@" >"$log" 2>&1 </dev/null; then
		tail -n 5 "$log" >&2
		rm -rf "$log" "$dir"
		unavailable "npm cannot install $*"
	fi
	rm -f "$log"
	chmod -R a+rX "$dir"
	touch "$dir/complete"
}
