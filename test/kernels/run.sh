#!/usr/bin/env bash
# Usage: run.sh NSRUN [VERSION...]
#
# Boots Debian's kernels in qemu, and runs what guest.sh says there, as root and as an ordinary user, and
# tests of packages that ask the kernel. Prints one line for each kernel. A VERSION is 6.1, 6.12-arm64, or 6.12-initramfs,
# where nothing is mounted over the first root file system, or 6.1-systemd, where limits are tried in a login of the user's.
# In the environment:
#
#	NSRUN_KERNELS         where packages are kept
#	NSRUN_KERNEL_LOGS     a directory for what the kernels print
#	NSRUN_KERNEL_SECONDS  how long each may take
#	NSRUN_KERNEL_OPTIONS  added to the kernel's command line
#	NSRUN_KERNEL_TESTS    packages whose tests run there instead, all of them, with the programs of Debian: "overlay nsexec",
#	                      or "all", for those that ask the kernel
#	NSRUN_KERNEL_RUN      only tests that this pattern matches
#	NSRUN_TEST_ONCE       as root alone
#	LINKED                flags of the linker for nsrun
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. test/lib.sh
. test/kernels/kernel.sh
. test/kernels/root.sh

nsrun=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- 5.10 6.1 6.12 6.1-systemd
[ "$(uname -m)" = x86_64 ] || unavailable "the kernels are started from amd64"
packages busybox-static cpio e2fsprogs dosfstools xz-utils kmod bash util-linux
case " $* " in *-arm64*) packages qemu-system-arm ;; esac
packages qemu-system-x86
cache=${NSRUN_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/nsrun/kernels}
mkdir -p "$cache"
tests=${NSRUN_KERNEL_TESTS:-} size=512M
[ "$tests" != all ] || tests=$all
[ -z "$tests" ] || size=2G
work=$(mktemp -d)
logs=${NSRUN_KERNEL_LOGS:-$work}
trap 'rm -rf "$work"' EXIT

# root VERSION prints the root file system for it.
root() {
	local version=$1 package
	set -- "$(arch_of "$1")"
	local root=$work/root-$1
	case $version in *-systemd) root=$work/root-$version ;; esac
	[ ! -e "$root" ] || { echo "$root" && return; }
	if [ "${version%-systemd}" != "$version" ]; then
		logins "$root" "$(release_of "$version")" >&2 || return 1
		for package in userscope limiter; do
			CGO_ENABLED=0 go test -vet=off -c -o "$root/test/$package" "./internal/$package" >/dev/null
		done
	elif [ -n "$tests" ]; then
		debian "$root" "$1" >&2 || return 1
		# shellcheck disable=SC2086
		suite "$root" "$1" $tests >&2 || return 1
		printf 'ONLY=%q\n%s\n' "${NSRUN_KERNEL_RUN:-}" "${NSRUN_TEST_ONCE:+export NSRUN_TEST_ONCE=1}" >"$root/test/settings"
	else
		base "$root" "$1" >&2 || return 1
		[ "$1" != amd64 ] || apparmor "$root" >&2 || echo "SKIPPED: no programs of AppArmor can be had here" >&2
		for package in internal/sys netpolicy/broker nsexec; do
			CGO_ENABLED=0 GOARCH=$1 go test -vet=off -c -o "$root/test/${package//\//-}" "./$package" >/dev/null
		done
	fi
	if [ "$1" = amd64 ]; then
		cp "$nsrun" "$root/usr/bin/nsrun"
	else
		CGO_ENABLED=0 GOARCH=$1 go build -trimpath -ldflags="-s -w ${LINKED:-}" -o "$root/usr/bin/nsrun" ./cmd/nsrun
	fi
	[ -e "$root/usr/bin/bwrap" ] || ln -s nsrun "$root/usr/bin/bwrap"
	truncate -s 40M "$root/test/fat.img"
	mkfs.vfat "$root/test/fat.img" >/dev/null
	install -m 755 test/kernels/{guest,init,logins,suite}.sh "$root/test/"
	echo "$root"
}

# machine ARCH prints what starts qemu for it, and the kernel's console.
machine() {
	case $1 in
	amd64) echo "qemu-system-x86_64 -cpu max" ;;
	arm64) echo "qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on" ;;
	esac
}

# boot VERSION DIR ROOT: what it prints is in $logs/VERSION.log.
boot() {
	local first=$work/first-$1 image=$work/image-$1 root=$3 arch version modules console=ttyS0 apparmor= init=/init drive=() first_process=/test/init.sh size=$size
	arch=$(arch_of "$1")
	[ "$arch" = amd64 ] || console=ttyAMA0
	case $1 in *-systemd) first_process=/lib/systemd/systemd size=1G ;; esac
	[ "${1%-initramfs}" != 6.12 ] || apparmor=apparmor, # the first one here that restricts user namespaces
	mkdir -p "$first/bin" "$first/modules" "$first/mnt" "$first/dev"
	cp "$root/bin/busybox" "$first/bin/"
	ln -s busybox "$first/bin/sh"
	version=$(ls "$2/lib/modules")
	modprobe -d "$2" -S "$version" --show-depends -a virtio_pci virtio_blk ext4 2>/dev/null | awk '$1 == "insmod" { print $2 }' |
		while read -r module; do cp "$module" "$first/modules/" && echo "$(basename "$module")"; done >"$first/list"
	printf '%s\n' '#!/bin/busybox sh' 'busybox mount -t devtmpfs none /dev' 'while read m; do busybox insmod /modules/$m; done </list' \
		'busybox mount -t ext4 /dev/vda /mnt' "exec busybox switch_root /mnt $first_process" >"$first/init"
	chmod 755 "$first/init"
	modules=$root/lib/modules
	rm -rf "$modules"
	mkdir -p "$modules/$version/kernel/fs" "$modules/$version/kernel/drivers/block"
	if [ -n "$tests" ]; then
		cp -r "$2/lib/modules/$version" "$modules/"
	else
		cp -r "$2/lib/modules/$version"/modules.* "$modules/$version/"
		cp -r "$2/lib/modules/$version/kernel/fs"/{overlayfs,fat,nls,fuse} "$modules/$version/kernel/fs/"
		cp "$2/lib/modules/$version/kernel/drivers/block/loop.ko" "$modules/$version/kernel/drivers/block/" 2>/dev/null || true
	fi
	case $1 in
	*-initramfs) first=$root init=/test/init.sh ;;
	*)
		truncate -s "$size" "$image"
		mke2fs -q -F -t ext4 -E root_owner=0:0 -d "$root" "$image"
		drive=(-drive "file=$image,format=raw,if=virtio,cache=unsafe")
		;;
	esac
	(cd "$first" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/initrd-$1"
	# shellcheck disable=SC2046
	timeout "${NSRUN_KERNEL_SECONDS:-1500}" $(machine "$arch") -accel tcg,thread=multi -smp 2 \
		-m 1536 -display none -no-reboot -nodefaults -kernel "$2"/boot/vmlinuz-* -initrd "$work/initrd-$1" \
		-append "console=$console quiet panic=-1 lsm=landlock,lockdown,yama,integrity,${apparmor}bpf rdinit=$init ${NSRUN_KERNEL_OPTIONS:-}" \
		"${drive[@]}" -serial "file:$logs/$1.log" || true
	rm -f "$image" "$work/initrd-$1"
}

failed=0
for version; do
	if ! dir=$(kernel "$version") || ! root=$(root "$version"); then
		echo "SKIPPED: Linux $version cannot be had here" >&2
		continue
	fi
	began=$SECONDS
	boot "$version" "$dir" "$root"
	log=$work/$version
	tr -d '\r' <"$logs/$version.log" >"$log.text"
	grep -E '^(FAIL|skip|left|ok suite|    \|)' "$log.text" || true
	ok=$(grep -c '^ok ' "$log.text" || true) bad=$(grep -c '^FAIL ' "$log.text" || true) skip=$(grep -c '^skip ' "$log.text" || true)
	if ! grep -q '^all done$' "$log.text"; then
		tail -n 15 "$log.text"
		bad=$((bad + 1))
	fi
	echo "Linux $version: $ok fine, $bad wrong, $skip left out, in $((SECONDS - began)) s"
	[ "$bad" = 0 ] || failed=1
done
exit "$failed"
