#!/usr/bin/env bash
# Usage: run.sh NSRUN [VERSION...]
#
# Boots Debian's kernels in qemu, and runs what guest.sh says there, as root and as an ordinary user, and tests of the
# packages that ask the kernel. Prints one line for each kernel. NSRUN_KERNELS is where packages are kept,
# NSRUN_KERNEL_LOGS a directory for what the kernels print, NSRUN_KERNEL_SECONDS how long each may take.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. test/lib.sh

nsrun=$(realpath "$1")
shift
[ "$(uname -m)" = x86_64 ] || unavailable "the kernels are for amd64"
packages qemu-system-x86 busybox-static cpio e2fsprogs dosfstools xz-utils kmod bash util-linux
cache=${NSRUN_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/nsrun/kernels}
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apt_of RELEASE prints the options with which apt works on that release of Debian alone.
apt_of() {
	local dir=$cache/$1
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
	echo "-oDir::Etc::sourcelist=$dir/sources.list -oDir::Etc::sourceparts=/dev/null -oDir::State::lists=$dir/lists" \
		"-oDir::Cache=$dir/cache -oAPT::Sandbox::User=root"
}

# kernel VERSION prints where that kernel lies, unpacked, with its modules.
kernel() {
	local release package=linux-image-cloud-amd64 options file to=$cache/$1
	case $1 in
	5.10) release=bullseye ;;
	6.1) release=bookworm ;;
	6.12) release=bookworm-backports package=linux-image-6.12-cloud-amd64 ;;
	*) die "no such kernel: $1" ;;
	esac
	if [ ! -e "$to/ready" ]; then
		options=$(apt_of "$release")
		# shellcheck disable=SC2086
		apt-get -qq $options update >/dev/null 2>&1 || return 1
		# shellcheck disable=SC2086
		package=$(apt-cache $options depends "$package" 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
		[ -n "$package" ] || return 1
		rm -rf "$to"
		mkdir -p "$to"
		# shellcheck disable=SC2086
		(cd "$to" && apt-get -qq $options download "$package" >/dev/null 2>&1) || return 1
		dpkg -x "$to"/*.deb "$to" && rm "$to"/*.deb
		find "$to/lib/modules" -name '*.xz' -exec unxz {} +
		depmod -b "$to" "$(ls "$to/lib/modules")"
		touch "$to/ready"
	fi
	echo "$to"
}

# The root: busybox and bash, nsrun, and tests.
root=$work/root
mkdir -p "$root"/{bin,sbin,etc,proc,sys,dev,tmp,root,home/user,lib,lib64,usr/bin,usr/sbin,var/tmp,mnt,test}
cp /bin/busybox "$root/bin/"
for name in $(/bin/busybox --list); do [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"; done
for program in /bin/bash /usr/bin/setpriv; do
	rm -f "$root/bin/$(basename "$program")"
	cp "$program" "$root/bin/"
	ldd "$program" | awk '/\// { print $(NF-1) }' | while read -r lib; do install -D "$lib" "$root$lib"; done
done
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >"$root/etc/group"
cp "$nsrun" "$root/usr/bin/nsrun"
ln -s nsrun "$root/usr/bin/bwrap"
truncate -s 40M "$root/test/fat.img"
mkfs.vfat "$root/test/fat.img" >/dev/null
install -m 755 test/kernels/guest.sh test/kernels/init.sh "$root/test/"
for package in internal/sys netpolicy/broker; do
	CGO_ENABLED=0 go test -vet=off -c -o "$root/test/${package//\//-}" "./$package" >/dev/null
done
chmod 1777 "$root/tmp" "$root/var/tmp"

# boot VERSION DIR: what it prints is in $work/VERSION.log.
boot() {
	local first=$work/first-$1 image=$work/image-$1
	mkdir -p "$first/bin" "$first/modules" "$first/mnt" "$first/dev"
	cp /bin/busybox "$first/bin/"
	ln -s busybox "$first/bin/sh"
	local version
	version=$(ls "$2/lib/modules")
	modprobe -d "$2" -S "$version" --show-depends -a virtio_pci virtio_blk 2>/dev/null | awk '$1 == "insmod" { print $2 }' |
		while read -r module; do cp "$module" "$first/modules/" && echo "$(basename "$module")"; done >"$first/list"
	printf '%s\n' '#!/bin/busybox sh' 'busybox mount -t devtmpfs none /dev' 'while read m; do busybox insmod /modules/$m; done </list' \
		'busybox mount -t ext4 /dev/vda /mnt' 'exec busybox switch_root /mnt /test/init.sh' >"$first/init"
	chmod 755 "$first/init"
	(cd "$first" && find . | cpio -o -H newc --quiet) >"$work/initrd-$1"
	mkdir -p "$work/modules-$1/lib"
	rm -rf "$root/lib/modules"
	mkdir -p "$root/lib/modules/$version/kernel/fs" "$root/lib/modules/$version/kernel/drivers/block"
	cp -r "$2/lib/modules/$version"/modules.* "$root/lib/modules/$version/"
	cp -r "$2/lib/modules/$version/kernel/fs"/{overlayfs,fat,nls,fuse} "$root/lib/modules/$version/kernel/fs/"
	cp "$2/lib/modules/$version/kernel/drivers/block/loop.ko" "$root/lib/modules/$version/kernel/drivers/block/" 2>/dev/null || true
	truncate -s 512M "$image"
	mke2fs -q -F -t ext4 -E root_owner=0:0 -d "$root" "$image"
	timeout "${NSRUN_KERNEL_SECONDS:-600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1536 -display none -no-reboot -nodefaults \
		-kernel "$2"/boot/vmlinuz-* -initrd "$work/initrd-$1" -append "console=ttyS0 quiet panic=-1 lsm=landlock,lockdown,yama,integrity,bpf" \
		-drive "file=$image,format=raw,if=virtio,cache=unsafe" -serial "file:$work/$1.log" || true
	rm -f "$image"
}

[ $# -gt 0 ] || set -- 5.10 6.1 6.12
failed=0
for version; do
	if ! dir=$(kernel "$version"); then
		echo "SKIPPED: Linux $version cannot be had here" >&2
		continue
	fi
	began=$SECONDS
	boot "$version" "$dir"
	log=$work/$version.log
	[ -z "${NSRUN_KERNEL_LOGS:-}" ] || cp "$log" "$NSRUN_KERNEL_LOGS/"
	tr -d '\r' <"$log" >"$log.text"
	grep -E '^(FAIL|skip)' "$log.text" || true
	ok=$(grep -c '^ok ' "$log.text" || true) bad=$(grep -c '^FAIL ' "$log.text" || true) skip=$(grep -c '^skip ' "$log.text" || true)
	if ! grep -q '^all done$' "$log.text"; then
		tail -n 15 "$log.text"
		bad=$((bad + 1))
	fi
	echo "Linux $version: $ok fine, $bad wrong, $skip left out, in $((SECONDS - began)) s"
	[ "$bad" = 0 ] || failed=1
done
exit "$failed"
