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

# debian ROOT ARCH makes a root of Debian's packages, which tests take programs from: those of this machine, or those of
# another architecture.
debian() {
	local root=$1 name list=(bash coreutils util-linux mount findutils grep sed mawk tar gzip git python3 perl procps iproute2
		libc-bin diffutils attr acl e2fsprogs dosfstools kmod debianutils dash libcap2-bin bubblewrap busybox-static)
	mkdir -p "$root"/{etc,proc,sys,dev,tmp,run,root,home/user,usr/bin,usr/sbin,usr/lib,usr/lib64,usr/lib32,usr/libx32,var/tmp,mnt,opt,srv,test,src}
	for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
	if [ "$2" = amd64 ]; then
		installed_in "$root" "${list[@]}"
		ldconfig -r "$root"
	else
		# Its loader finds the libraries without a cache.
		downloaded_in "$root" bookworm "$2" "${list[@]}" || return 1
	fi
	ln -sf mawk "$root/usr/bin/awk"
	[ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
	people "$root"
}

# installed_in ROOT PACKAGE... copies those packages, and what they depend on, from this machine.
installed_in() {
	local root=$1 name
	shift
	packages "$@"
	apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances --installed "$@" |
		grep '^[a-z]' | sort -u | xargs dpkg -L 2>/dev/null |
		grep -v '^/usr/share/\(doc\|man\|locale\|info\|bash-completion\)/' | sort -u |
		while read -r name; do [ ! -L "$name" ] && [ ! -f "$name" ] || echo "$name"; done |
		tar -C / -cf - --no-recursion -T - 2>/dev/null | tar -C "$root" -xf - --keep-directory-symlink
}

# What all stands for: the packages whose tests ask the kernel.
all="overlay overlay/internal/tree overlay/internal/tx overlay/internal/store nsexec internal/sys features mounts fanotify
internal/reexec internal/prerun internal/confine internal/wall internal/cgroups internal/limiter internal/owndir
internal/homelayer internal/attempts netpolicy netpolicy/broker netpolicy/cgroup internal/sandbox ."

# logins ROOT RELEASE makes a root of that release of Debian whose first process is systemd, which runs guest.sh in a login
# of the user's.
logins() {
	local root=$1
	mkdir -p "$root"/{etc/pam.d,proc,sys,dev,tmp,run,root,home/user,usr/bin,usr/sbin,usr/lib,usr/lib64,var/tmp,mnt,test}
	for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
	# Without dbus-user-session in one of them: there the user has no message bus.
	downloaded_in "$root" "$2" amd64 bash coreutils util-linux mount findutils grep sed mawk libc-bin debianutils dash busybox-static perl-base \
		systemd dbus libpam-systemd libpam-modules $([ "$2" = bullseye ] || echo dbus-user-session) || return 1
	ln -sf mawk "$root/usr/bin/awk"
	ln -sf dash "$root/usr/bin/sh"
	ln -sf busybox "$root/usr/bin/ip"
	people "$root"
	echo 'messagebus:x:100:100::/:/bin/sh' >>"$root/etc/passwd"
	echo 'messagebus:x:100:' >>"$root/etc/group"
	: >"$root/etc/machine-id"
	printf '%s\n' 'account required pam_permit.so' 'session required pam_permit.so' 'session required pam_systemd.so' |
		tee "$root/etc/pam.d/"{systemd-user,other} >"$root/etc/pam.d/nsrun-test"
	printf '%s\n' '[Unit]' 'Requires=basic.target dbus.socket' 'After=basic.target dbus.socket' 'Wants=nsrun-test.service' >"$root/etc/systemd/system/default.target"
	printf '%s\n' '[Service]' 'ExecStart=/test/logins.sh' 'StandardOutput=tty' 'StandardError=tty' 'TTYPath=/dev/ttyS0' >"$root/etc/systemd/system/nsrun-test.service"
}

# suite ROOT ARCH PACKAGE... has the tests of packages there, with the files that they read.
suite() {
	local root=$1 arch=$2 package name
	shift 2
	git ls-files -z | tar --null -T - -cf - | tar -C "$root/src" -xf -
	mkdir "$root/test/suite"
	for package; do
		name=${package//\//-}
		CGO_ENABLED=0 GOARCH=$arch go test -vet=off -c -o "$root/test/suite/${name/#./root}.test" "./$package" || return 1
		echo "$package" >>"$root/test/packages"
	done
}

# apparmor ROOT has the program that loads AppArmor's profiles, with its libraries, and nsrun's profiles.
apparmor() {
	local from=$cache/apparmor to=$1/test/apparmor
	fetched "$from" trixie amd64 apparmor libc6 || return 1
	mkdir -p "$to/lib"
	cp "$from/usr/sbin/apparmor_parser" cmd/nsrun/apparmor/* "$to/"
	cp -L "$from/usr/lib/x86_64-linux-gnu/"{ld-linux-x86-64.so.2,libc.so.6,libm.so.6} "$to/lib/"
	cp -r "$from/etc/apparmor.d" "$1/etc/"
	mkdir -p "$1/etc/apparmor"
	: >"$1/etc/apparmor/parser.conf"
	# As Ubuntu restricts all programs without a profile.
	cat >"$to/restricted" <<-'END'
		abi <abi/4.0>,
		profile restricted flags=(attach_disconnected,mediate_deleted) {
		  capability, network, unix, ptrace, signal, mount, umount, pivot_root, mqueue, change_profile,
		  allow file rwlkm /{**,},
		  allow pix /{**,},
		}
	END
}

people() {
	printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$1/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >"$1/etc/group"
	echo '127.0.0.1 localhost' >"$1/etc/hosts"
	echo 'nameserver 127.0.0.1' >"$1/etc/resolv.conf" # nobody answers there
	chmod 1777 "$1/tmp" "$1/var/tmp"
}
