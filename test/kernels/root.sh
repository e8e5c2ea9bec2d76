# Sourced by run.sh: the root file systems of the machines, in $work.

# base ROOT ARCH makes a root with busybox and bash.
base() {
	local root=$1 name program lib
	mkdir -p "$root"/{bin,sbin,etc,proc,sys,dev,tmp,root,home/user,lib,lib64,usr/bin,usr/sbin,var/tmp,mnt,test}
	if [ "$2" = amd64 ]; then
		cp /bin/busybox "$root/bin/"
	else
		fetched "$cache/programs-$2" bookworm "$2" busybox-static bash libc6 libtinfo6 util-linux libcap-ng0 || return 1
		cp -r "$cache/programs-$2"/{bin,lib,usr} "$root/"
	fi
	for name in $(/bin/busybox --list); do
		[ "$name" = busybox ] || [ -e "$root/bin/$name" ] || [ -e "$root/usr/bin/$name" ] || ln -s busybox "$root/bin/$name"
	done
	[ "$2" != amd64 ] || for program in /bin/bash /usr/bin/setpriv; do
		rm -f "$root/bin/$(basename "$program")"
		cp "$program" "$root/bin/"
		ldd "$program" | awk '/\// { print $(NF-1) }' | while read -r lib; do install -D "$lib" "$root$lib"; done
	done
	people "$root"
}

people() {
	printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$1/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >"$1/etc/group"
	echo '127.0.0.1 localhost' >"$1/etc/hosts"
	chmod 1777 "$1/tmp" "$1/var/tmp"
}
