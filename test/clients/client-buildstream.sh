what='imports a root file system and builds an element in it'
calls=--remount-ro

get() {
	packages buildstream busybox-static fuse3 tar
	version=$(version_of buildstream)
}

# It mounts what it builds with FUSE.
prepare() {
	[ -r /dev/fuse ] && [ "$(stat -c %a /dev/fuse)" = 666 ] && return
	mknod -m 666 "$work/fuse" c 10 229
	mount --bind "$work/fuse" /dev/fuse
}

job() {
	mkdir -p project/elements project/root/bin project/root/usr/bin project/root/tmp project/root/dev project/root/proc project/root/etc
	cp /bin/busybox project/root/bin/
	for name in sh cat echo mkdir id hostname touch ls env cp chmod; do ln -s busybox project/root/bin/$name; done
	cd project
	cat >project.conf <<-'END'
		name: hello
		format-version: 17
		element-path: elements
	END
	cat >elements/base.bst <<-'END'
		kind: import
		sources:
		- {kind: local, path: root}
	END
	cat >elements/hello.bst <<-'END'
		kind: manual
		build-depends: [base.bst]
		config:
		  build-commands:
		  - echo "$(hostname) $(id -u)" > result
		  - if touch /bin/written; then echo written >> result; fi
		  install-commands:
		  - mkdir -p "%{install-root}" && cp result "%{install-root}/result"
		  strip-commands: []
	END
	bst --no-interactive --no-colors build hello.bst
	bst --no-interactive --no-colors checkout --deps none hello.bst ../out
	cat ../out/result
	[ "$(cat ../out/result)" = "buildstream 0" ] || wrong "not built as it should be: $(cat ../out/result)"
}
