# Sourced by run.sh: Debian's kernels and packages, by name. $cache is where they are kept.
#
# A VERSION is that of a kernel, with -arm64 behind it for that architecture: 6.1, 6.12-arm64. With -initramfs behind it,
# the root file system is an initramfs: 6.12-initramfs. With -systemd behind it, the first process is systemd, of the
# same release of Debian: 6.1-systemd.

# release_of VERSION prints that release.
release_of() { case $1 in 5.10*) echo bullseye ;; 6.1 | 6.1-*) echo bookworm ;; *) echo trixie ;; esac; }

# arch_of VERSION prints the architecture.
arch_of() { case $1 in *-arm64*) echo arm64 ;; *) echo amd64 ;; esac; }

# apt_of RELEASE ARCH prints the options with which apt works on that release of Debian alone.
apt_of() {
	local dir=$cache/$1-$2
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	local sign='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]' uri
	# From where this machine has its own packages.
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | sort -u | while read -r uri; do
		case $uri in
		*security*) echo "deb $sign $uri ${1%-backports}-security main" ;;
		*)
			echo "deb $sign $uri ${1%-backports} main"
			[ "${1%-backports}" = "$1" ] || echo "deb $sign $uri $1 main"
			;;
		esac
	done >"$dir/sources.list"
	: >"$dir/status" # of another architecture nothing is installed
	echo "-oDir::Etc::sourcelist=$dir/sources.list -oDir::Etc::sourceparts=/dev/null -oDir::State::lists=$dir/lists" \
		"-oDir::State::status=$dir/status -oDir::Cache=$dir/cache -oAPT::Sandbox::User=root -oAcquire::Retries=3 -oAPT::Architecture=$2 -oAPT::Architectures=$2"
}

# fetched DIR RELEASE ARCH PACKAGE... has those packages in DIR, unpacked.
fetched() {
	local to=$1 options
	options=$(apt_of "$2" "$3")
	shift 3
	[ ! -e "$to/ready" ] || return 0
	# shellcheck disable=SC2086
	apt-get -qq $options update >/dev/null 2>&1 || return 1
	rm -rf "$to"
	mkdir -p "$to"
	local package list=()
	for package; do
		case $package in
		linux-image-*) # the one that this package stands for
			# shellcheck disable=SC2086
			package=$(apt-cache $options depends "$package" 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
			[ -n "$package" ] || return 1
			;;
		esac
		list+=("$package")
	done
	# shellcheck disable=SC2086
	(cd "$to" && apt-get -qq $options download "${list[@]}" >/dev/null 2>&1) || return 1
	for package in "$to"/*.deb; do dpkg -x "$package" "$to" && rm "$package"; done
	touch "$to/ready"
}

# downloaded_in ROOT RELEASE ARCH PACKAGE... unpacks those packages in ROOT, and what they depend on.
downloaded_in() {
	local root=$1 options package archives=$cache/$2-$3/cache/archives
	options=$(apt_of "$2" "$3")
	shift 3
	# shellcheck disable=SC2086
	apt-get -qq $options update >/dev/null 2>&1 &&
		apt-get -qqy $options --no-install-recommends --download-only install "$@" >/dev/null 2>&1 || return 1
	for package in "$archives"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -C "$root" -xf - --keep-directory-symlink \
			--exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/info'
	done
}

# kernel VERSION prints where that kernel lies, unpacked, with its modules.
kernel() {
	set -- "${1%-initramfs}"
	set -- "${1%-systemd}"
	local arch release package to=$cache/$1
	arch=$(arch_of "$1")
	package=linux-image-cloud-$arch
	case ${1%-arm64} in
	5.10) release=bullseye ;;
	6.1) release=bookworm ;;
	6.12) release=bookworm-backports package=linux-image-6.12-cloud-$arch ;;
	*) die "no such kernel: $1" ;;
	esac
	if [ ! -e "$to/ready" ]; then
		fetched "$to" "$release" "$arch" "$package" || return 1
		find "$to/lib/modules" -name '*.xz' -exec unxz {} +
		depmod -b "$to" "$(ls "$to/lib/modules")"
	fi
	echo "$to"
}
