what='builds a runtime and an application, installs and runs them'
calls=--seccomp

get() {
	packages flatpak busybox-static dbus
	version=$(version_of flatpak)
}

job() {
	local arch
	arch=$(flatpak --default-arch)
	export FLATPAK_USER_DIR=$HOME/flatpak
	# Parental controls are asked for at the system's bus.
	DBUS_SESSION_BUS_ADDRESS=$(dbus-daemon --session --fork --print-address)
	export DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS
	# A runtime that is its own SDK.
	mkdir -p runtime/files runtime/usr/bin
	cp /bin/busybox runtime/usr/bin/
	for name in sh cat echo mkdir chmod ls id readlink env touch; do ln -s busybox runtime/usr/bin/$name; done
	cat >runtime/metadata <<-END
		[Runtime]
		name=org.example.Platform
		runtime=org.example.Platform/$arch/1
		sdk=org.example.Platform/$arch/1
	END
	flatpak build-export --disable-sandbox repo runtime 1
	flatpak --user remote-add --no-gpg-verify local repo
	flatpak --user install -y --noninteractive local runtime/org.example.Platform/$arch/1

	flatpak build-init app org.example.Hello org.example.Platform org.example.Platform 1
	flatpak build app sh -c 'mkdir -p /app/bin && cat > /app/bin/hello && chmod 755 /app/bin/hello' <<-'END'
		#!/bin/sh
		echo "hello $*"
		cat /.flatpak-info
		readlink /proc/self/ns/net
		touch /app/written /usr/written || echo read-only
		if [ -e "$SECRET" ]; then echo seen; else echo hidden; fi
		exit 42
	END
	[ -x app/files/bin/hello ] || wrong "flatpak build wrote nothing"
	flatpak build-finish app --command=hello
	# Checks the icons too, in a sandbox of its own.
	flatpak build-export repo app
	flatpak --user install -y --noninteractive local org.example.Hello
	echo secret >secret
	local status=0
	flatpak run --env=SECRET="$HOME/secret" org.example.Hello world >out || status=$?
	cat out
	[ $status = 42 ] || wrong "the exit status is $status"
	grep -qx 'hello world' out || wrong "it did not run"
	grep -qx 'name=org.example.Hello' out || wrong "it does not know who it is"
	grep -qx 'read-only' out || wrong "its files can be written to"
	grep -qx 'hidden' out || wrong "it sees the home directory"
	! grep -qxF "$(readlink /proc/self/ns/net)" out || wrong "its network is the caller's"
}
