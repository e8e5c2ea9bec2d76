what='builds and installs a package of a local repository'
calls=--tmpfs

get() {
	packages opam rsync patch unzip bzip2 make wget
	version=$(version_of opam)
}

job() {
	mkdir -p repo/packages/hello/hello.1
	echo 'opam-version: "2.0"' >repo/repo
	cat >repo/packages/hello/hello.1/opam <<-'END'
		opam-version: "2.0"
		synopsis: "Says whether it was built in a sandbox"
		maintainer: "nobody@example.org"
		build: [
		  ["sh" "-c" "echo built > hello; if touch ~/escaped; then echo escaped >> hello; fi"]
		  ["sh" "-c" "readlink /proc/self/ns/net >> hello"]
		]
		install: ["install" "-D" "hello" "%{share}%/hello.txt"]
	END
	export OPAMYES=1 OPAMCOLOR=never OPAMROOT=$HOME/opam
	opam init --bare --no-setup ./repo
	grep -q sandbox.sh "$OPAMROOT/config" || wrong "opam does without its sandbox"
	opam switch create test --empty
	opam install -v hello
	[ ! -e escaped ] || wrong "a build wrote to the home directory"
	[ "$(grep -c . "$OPAMROOT/test/share/hello.txt")" = 2 ] && grep -qx built "$OPAMROOT/test/share/hello.txt" ||
		wrong "not built as it should be: $(cat "$OPAMROOT/test/share/hello.txt")"
	! grep -qxF "$(readlink /proc/self/ns/net)" "$OPAMROOT/test/share/hello.txt" || wrong "the network is the same"
}
