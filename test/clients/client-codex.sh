what='an agent'\''s sandbox: one directory writable but for its .git, no network'
calls=--as-pid-1

version=0.169.0

get() {
	npm_packages "$(cache codex-$version)" "@openai/codex@$version"
}

unpacked() { echo "$(cache codex-$version)"/node_modules/@openai/codex-linux-*/vendor/*; }

# It brings a bwrap for where there is none, or one that does not work.
prepare() { mount --bind /dev/null "$(unpacked)/codex-resources/bwrap"; }

job() {
	PATH=$(unpacked)/bin:$PATH
	# It does not want its helpers below /tmp.
	export CODEX_HOME=$XDG_RUNTIME_DIR/codex
	mkdir -p "$CODEX_HOME" project/.git
	cd project
	sandboxed() { codex sandbox -c 'sandbox_mode="workspace-write"' -- "$@"; }
	sandboxed sh -c 'echo written > file; readlink /proc/self/ns/net; id -u' >../out
	[ "$(cat file)" = written ] || wrong "the project cannot be written to"
	[ "$(tail -n 1 ../out)" = "$(id -u)" ] || wrong "another user: $(cat ../out)"
	! grep -qxF "$(readlink /proc/self/ns/net)" ../out || wrong "the network is the same"
	! sandboxed touch .git/config || wrong "its .git can be written to"
	! sandboxed touch "$XDG_RUNTIME_DIR/outside" || wrong "everything can be written to"
	[ ! -e .git/config ] && [ ! -e "$XDG_RUNTIME_DIR/outside" ] || wrong "something was written"
	local status=0
	sandboxed sh -c 'exit 42' || status=$?
	[ $status = 42 ] || wrong "the exit status is $status"
}
