what='an agent'\''s sandbox: one directory writable, one secret hidden, no network'
calls=--unshare-net

version=0.0.83
# It wants a newer one than Debian has.
node=22.23.3

get() {
	packages socat ripgrep
	local arch
	arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
	npm_packages "$(cache srt-$version)" "@anthropic-ai/sandbox-runtime@$version" "node-linux-$arch@$node"
}

job() {
	local modules
	modules=$(cache srt-$version)/node_modules
	PATH=$modules/.bin:$(echo "$modules"/node-linux-*/bin):$PATH
	[ "$(node --version)" = v$node ] || wrong "another node: $(node --version)"
	mkdir project secrets
	echo secret >secrets/key
	cat >.srt-settings.json <<-END
		{
		  "network": {"allowedDomains": [], "deniedDomains": []},
		  "filesystem": {"denyRead": ["$HOME/secrets"], "allowWrite": ["$HOME/project"], "denyWrite": ["$HOME/project/kept"]}
		}
	END
	echo kept >project/kept
	cd project
	srt -c "echo written > file; readlink /proc/self/ns/net; id -u" >../out
	[ "$(cat file)" = written ] || wrong "the project cannot be written to"
	[ "$(tail -n 1 ../out)" = "$(id -u)" ] || wrong "another user: $(cat ../out)"
	! grep -qxF "$(readlink /proc/self/ns/net)" ../out || wrong "the network is the same"
	! srt -c "cat $HOME/secrets/key" || wrong "the secret can be read"
	! srt -c "echo changed > kept" || wrong "a file that is denied was written"
	! srt -c "touch $HOME/outside" || wrong "the home directory can be written to"
	[ "$(cat kept)" = kept ] && [ ! -e ../outside ] || wrong "something was written"
	local status=0
	srt -c "exit 42" || status=$?
	[ $status = 42 ] || wrong "the exit status is $status"
}
