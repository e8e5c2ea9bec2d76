# bash completion for nsrun, and for bwrap where that is nsrun.
# Made by make generate: edit internal/manual/nsrun.bash.in or the tables.

# bwrap's options, and those that only nsrun has.
_nsrun_options='
--help
--version
--args
--level-prefix
--unshare-all
--share-net
--unshare-user
--unshare-user-try
--unshare-ipc
--unshare-pid
--unshare-net
--unshare-uts
--unshare-cgroup
--unshare-cgroup-try
--userns
--userns2
--disable-userns
--assert-userns-disabled
--pidns
--uid
--gid
--hostname
--clearenv
--setenv
--unsetenv
--bind
--bind-try
--ro-bind
--ro-bind-try
--dev-bind
--dev-bind-try
--bind-fd
--ro-bind-fd
--remount-ro
--proc
--dev
--tmpfs
--mqueue
--overlay-src
--overlay
--tmp-overlay
--ro-overlay
--dir
--file
--bind-data
--ro-bind-data
--symlink
--chmod
--perms
--size
--argv0
--chdir
--new-session
--die-with-parent
--as-pid-1
--lock-file
--cap-add
--cap-drop
--seccomp
--add-seccomp-fd
--exec-label
--file-label
--not-a-security-boundary
--sync-fd
--block-fd
--userns-block-fd
--info-fd
--json-status-fd
'
_nsrun_own='
--netns
--allow-loopback-failure
--uid-map
--gid-map
--create-mount-points
--overlay-hide
--overlay-submounts
--forward-signals
--exit-codes
--kill-on-exit
--seccomp-file
'
_nsrun_verbs='
run
policy
why
learn
config
trust
ls
show
diff
review
commit
discard
drop
undo
files
log
restore
watch
home
gc
doctor
mcp
completion
man
version
help
'
_nsrun_caps='
ALL
CAP_CHOWN
CAP_DAC_OVERRIDE
CAP_DAC_READ_SEARCH
CAP_FOWNER
CAP_FSETID
CAP_KILL
CAP_SETGID
CAP_SETUID
CAP_SETPCAP
CAP_LINUX_IMMUTABLE
CAP_NET_BIND_SERVICE
CAP_NET_BROADCAST
CAP_NET_ADMIN
CAP_NET_RAW
CAP_IPC_LOCK
CAP_IPC_OWNER
CAP_SYS_MODULE
CAP_SYS_RAWIO
CAP_SYS_CHROOT
CAP_SYS_PTRACE
CAP_SYS_PACCT
CAP_SYS_ADMIN
CAP_SYS_BOOT
CAP_SYS_NICE
CAP_SYS_RESOURCE
CAP_SYS_TIME
CAP_SYS_TTY_CONFIG
CAP_MKNOD
CAP_LEASE
CAP_AUDIT_WRITE
CAP_AUDIT_CONTROL
CAP_SETFCAP
CAP_MAC_OVERRIDE
CAP_MAC_ADMIN
CAP_SYSLOG
CAP_WAKE_ALARM
CAP_BLOCK_SUSPEND
CAP_AUDIT_READ
CAP_PERFMON
CAP_BPF
CAP_CHECKPOINT_RESTORE
'

# _nsrun_kinds OPTION sets kinds to what its words are.
_nsrun_kinds() {
	case $1 in
	--args | --userns | --userns2 | --pidns | --uid | --gid | --uid-map | --gid-map | --hostname | --perms | --size | --argv0 | --seccomp | --add-seccomp-fd | --exec-label | --file-label | --sync-fd | --block-fd | --userns-block-fd | --info-fd | --json-status-fd) kinds=(none) ;;
	--netns) kinds=(netns) ;;
	--setenv) kinds=(var none) ;;
	--unsetenv) kinds=(var) ;;
	--bind | --bind-try | --ro-bind | --ro-bind-try | --dev-bind | --dev-bind-try | --symlink) kinds=(path path) ;;
	--bind-fd | --ro-bind-fd | --file | --bind-data | --ro-bind-data | --chmod) kinds=(none path) ;;
	--remount-ro | --proc | --dev | --tmpfs | --mqueue | --overlay-src | --tmp-overlay | --ro-overlay | --overlay-hide | --dir | --lock-file | --seccomp-file) kinds=(path) ;;
	--overlay) kinds=(dir dir path) ;;
	--chdir) kinds=(dir) ;;
	--cap-add | --cap-drop) kinds=(cap) ;;
	*) kinds=() ;;
	esac
}

# _nsrun_flag VERB FLAG, the flag without dashes, sets kinds to what its word is.
_nsrun_flag() {
	case "$1 $2" in
	'run C') kinds=(dir) ;;
	'run allow-net') kinds=(none) ;;
	'run allow-unix') kinds=(path) ;;
	'run backend') kinds=(choice:auto,native,landlock) ;;
	'run block') kinds=(path) ;;
	'run c') kinds=(none) ;;
	'run cache') kinds=(dir) ;;
	'run cpus') kinds=(none) ;;
	'run credential') kinds=(none) ;;
	'run device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'run dir') kinds=(dir) ;;
	'run disk') kinds=(none) ;;
	'run engine') kinds=(choice:overlay,tmpfs,copy) ;;
	'run env') kinds=(var) ;;
	'run fsize') kinds=(none) ;;
	'run grace') kinds=(none) ;;
	'run home') kinds=(choice:layer,none) ;;
	'run home-size') kinds=(none) ;;
	'run inodes') kinds=(none) ;;
	'run memory') kinds=(none) ;;
	'run net') kinds=(choice:none,host) ;;
	'run net-by') kinds=(choice:kernel,broker) ;;
	'run nice') kinds=(none) ;;
	'run nofile') kinds=(none) ;;
	'run on') kinds=(session) ;;
	'run output') kinds=(none) ;;
	'run pids') kinds=(none) ;;
	'run preset') kinds=(choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github) ;;
	'run project') kinds=(dir) ;;
	'run protect') kinds=(path) ;;
	'run publish') kinds=(none) ;;
	'run report') kinds=(path) ;;
	'run ro') kinds=(path) ;;
	'run rw') kinds=(path) ;;
	'run sandbox') kinds=(choice:required,preferred,disabled) ;;
	'run session') kinds=(session) ;;
	'run swap') kinds=(none) ;;
	'run timeout') kinds=(none) ;;
	'policy C') kinds=(dir) ;;
	'policy allow-net') kinds=(none) ;;
	'policy allow-unix') kinds=(path) ;;
	'policy backend') kinds=(choice:auto,native,landlock) ;;
	'policy block') kinds=(path) ;;
	'policy c') kinds=(none) ;;
	'policy cache') kinds=(dir) ;;
	'policy cpus') kinds=(none) ;;
	'policy credential') kinds=(none) ;;
	'policy device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'policy dir') kinds=(dir) ;;
	'policy disk') kinds=(none) ;;
	'policy engine') kinds=(choice:overlay,tmpfs,copy) ;;
	'policy env') kinds=(var) ;;
	'policy fsize') kinds=(none) ;;
	'policy grace') kinds=(none) ;;
	'policy home') kinds=(choice:layer,none) ;;
	'policy home-size') kinds=(none) ;;
	'policy inodes') kinds=(none) ;;
	'policy memory') kinds=(none) ;;
	'policy net') kinds=(choice:none,host) ;;
	'policy net-by') kinds=(choice:kernel,broker) ;;
	'policy nice') kinds=(none) ;;
	'policy nofile') kinds=(none) ;;
	'policy on') kinds=(session) ;;
	'policy output') kinds=(none) ;;
	'policy pids') kinds=(none) ;;
	'policy preset') kinds=(choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github) ;;
	'policy project') kinds=(dir) ;;
	'policy protect') kinds=(path) ;;
	'policy publish') kinds=(none) ;;
	'policy report') kinds=(path) ;;
	'policy ro') kinds=(path) ;;
	'policy rw') kinds=(path) ;;
	'policy sandbox') kinds=(choice:required,preferred,disabled) ;;
	'policy session') kinds=(session) ;;
	'policy swap') kinds=(none) ;;
	'policy timeout') kinds=(none) ;;
	'why C') kinds=(dir) ;;
	'why allow-net') kinds=(none) ;;
	'why allow-unix') kinds=(path) ;;
	'why backend') kinds=(choice:auto,native,landlock) ;;
	'why block') kinds=(path) ;;
	'why c') kinds=(none) ;;
	'why cache') kinds=(dir) ;;
	'why cpus') kinds=(none) ;;
	'why credential') kinds=(none) ;;
	'why device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'why dir') kinds=(dir) ;;
	'why disk') kinds=(none) ;;
	'why engine') kinds=(choice:overlay,tmpfs,copy) ;;
	'why env') kinds=(var) ;;
	'why fsize') kinds=(none) ;;
	'why grace') kinds=(none) ;;
	'why home') kinds=(choice:layer,none) ;;
	'why home-size') kinds=(none) ;;
	'why inodes') kinds=(none) ;;
	'why memory') kinds=(none) ;;
	'why net') kinds=(choice:none,host) ;;
	'why net-by') kinds=(choice:kernel,broker) ;;
	'why nice') kinds=(none) ;;
	'why nofile') kinds=(none) ;;
	'why on') kinds=(session) ;;
	'why output') kinds=(none) ;;
	'why pids') kinds=(none) ;;
	'why preset') kinds=(choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github) ;;
	'why project') kinds=(dir) ;;
	'why protect') kinds=(path) ;;
	'why publish') kinds=(none) ;;
	'why report') kinds=(path) ;;
	'why ro') kinds=(path) ;;
	'why rw') kinds=(path) ;;
	'why sandbox') kinds=(choice:required,preferred,disabled) ;;
	'why session') kinds=(session) ;;
	'why swap') kinds=(none) ;;
	'why timeout') kinds=(none) ;;
	'learn C') kinds=(dir) ;;
	'learn allow-net') kinds=(none) ;;
	'learn allow-unix') kinds=(path) ;;
	'learn backend') kinds=(choice:auto,native,landlock) ;;
	'learn block') kinds=(path) ;;
	'learn c') kinds=(none) ;;
	'learn cache') kinds=(dir) ;;
	'learn cpus') kinds=(none) ;;
	'learn credential') kinds=(none) ;;
	'learn device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'learn dir') kinds=(dir) ;;
	'learn disk') kinds=(none) ;;
	'learn engine') kinds=(choice:overlay,tmpfs,copy) ;;
	'learn env') kinds=(var) ;;
	'learn fsize') kinds=(none) ;;
	'learn grace') kinds=(none) ;;
	'learn home') kinds=(choice:layer,none) ;;
	'learn home-size') kinds=(none) ;;
	'learn inodes') kinds=(none) ;;
	'learn memory') kinds=(none) ;;
	'learn net') kinds=(choice:none,host) ;;
	'learn net-by') kinds=(choice:kernel,broker) ;;
	'learn nice') kinds=(none) ;;
	'learn nofile') kinds=(none) ;;
	'learn o') kinds=(path) ;;
	'learn on') kinds=(session) ;;
	'learn output') kinds=(none) ;;
	'learn pids') kinds=(none) ;;
	'learn preset') kinds=(choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github) ;;
	'learn project') kinds=(dir) ;;
	'learn protect') kinds=(path) ;;
	'learn publish') kinds=(none) ;;
	'learn report') kinds=(path) ;;
	'learn ro') kinds=(path) ;;
	'learn rw') kinds=(path) ;;
	'learn sandbox') kinds=(choice:required,preferred,disabled) ;;
	'learn session') kinds=(session) ;;
	'learn swap') kinds=(none) ;;
	'learn timeout') kinds=(none) ;;
	'config C') kinds=(dir) ;;
	'config allow-net') kinds=(none) ;;
	'config allow-unix') kinds=(path) ;;
	'config backend') kinds=(choice:auto,native,landlock) ;;
	'config block') kinds=(path) ;;
	'config c') kinds=(none) ;;
	'config cache') kinds=(dir) ;;
	'config cpus') kinds=(none) ;;
	'config credential') kinds=(none) ;;
	'config device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'config dir') kinds=(dir) ;;
	'config disk') kinds=(none) ;;
	'config engine') kinds=(choice:overlay,tmpfs,copy) ;;
	'config env') kinds=(var) ;;
	'config fsize') kinds=(none) ;;
	'config grace') kinds=(none) ;;
	'config home') kinds=(choice:layer,none) ;;
	'config home-size') kinds=(none) ;;
	'config inodes') kinds=(none) ;;
	'config memory') kinds=(none) ;;
	'config net') kinds=(choice:none,host) ;;
	'config net-by') kinds=(choice:kernel,broker) ;;
	'config nice') kinds=(none) ;;
	'config nofile') kinds=(none) ;;
	'config on') kinds=(session) ;;
	'config output') kinds=(none) ;;
	'config pids') kinds=(none) ;;
	'config preset') kinds=(choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github) ;;
	'config project') kinds=(dir) ;;
	'config protect') kinds=(path) ;;
	'config publish') kinds=(none) ;;
	'config report') kinds=(path) ;;
	'config ro') kinds=(path) ;;
	'config rw') kinds=(path) ;;
	'config sandbox') kinds=(choice:required,preferred,disabled) ;;
	'config session') kinds=(session) ;;
	'config swap') kinds=(none) ;;
	'config timeout') kinds=(none) ;;
	'diff color') kinds=(choice:auto,always,never) ;;
	'commit exclude') kinds=(path) ;;
	'log n') kinds=(none) ;;
	'log session') kinds=(session) ;;
	'restore date') kinds=(none) ;;
	'restore from') kinds=(none) ;;
	'restore to') kinds=(path) ;;
	'watch engine') kinds=(choice:auto,fanotify,inotify) ;;
	'home project') kinds=(dir) ;;
	'gc older') kinds=(none) ;;
	'mcp allow-net') kinds=(none) ;;
	'mcp allow-unix') kinds=(path) ;;
	'mcp ask-timeout') kinds=(none) ;;
	'mcp backend') kinds=(choice:auto,native,landlock) ;;
	'mcp block') kinds=(path) ;;
	'mcp credential') kinds=(none) ;;
	'mcp device') kinds=(choice:nvidia,dri,kvm,PATH) ;;
	'mcp env') kinds=(var) ;;
	'mcp home') kinds=(choice:layer,none) ;;
	'mcp max-output') kinds=(none) ;;
	'mcp net-by') kinds=(choice:kernel,broker) ;;
	'mcp preset') kinds=(choice:default,build) ;;
	'mcp project') kinds=(dir) ;;
	'mcp protect') kinds=(path) ;;
	'mcp publish') kinds=(none) ;;
	'mcp ro') kinds=(path) ;;
	'mcp rw') kinds=(path) ;;
	'mcp sandbox') kinds=(choice:required,preferred,disabled) ;;
	'mcp timeout') kinds=(none) ;;
	*) kinds=() ;;
	esac
}

# _nsrun_flags VERB sets flags, and rest to what follows them: + is for any number.
_nsrun_flags() {
	case $1 in
	run) flags='-C --allow-exec --allow-net --allow-special --allow-unix --allow-userns --backend --block --block-existing -c --cache --clear-env --commit --cpus --credential --device --dir --direct --discard --disk --engine --env --explain --fsize --grace --home --home-size --idle-io --inodes --keep --learn-net --memory --net --net-by --nice --nofile --on --output --own-ids --pids --preset --project --protect --publish -q --report --ro --rw --sandbox --session --swap --timeout --watch --why' rest=(command none+) ;;
	policy) flags='-C --allow-exec --allow-net --allow-special --allow-unix --allow-userns --backend --block --block-existing -c --cache --clear-env --commit --cpus --credential --device --dir --direct --discard --disk --engine --env --explain --fsize --grace --home --home-size --idle-io --inodes --json --keep --learn-net --memory --net --net-by --nice --nofile --on --output --own-ids --pids --preset --project --protect --publish -q --report --ro --rw --sandbox --session --swap --timeout --watch --why' rest=(command none+) ;;
	why) flags='-C --allow-exec --allow-net --allow-special --allow-unix --allow-userns --backend --block --block-existing -c --cache --clear-env --commit --cpus --credential --device --dir --direct --discard --disk --engine --env --explain --fsize --grace --home --home-size --idle-io --inodes --json --keep --learn-net --memory --net --net-by --nice --nofile --on --output --own-ids --pids --preset --project --protect --publish -q --report --ro --rw --sandbox --session --swap --timeout --watch --why' rest=(path+) ;;
	learn) flags='-C --allow-exec --allow-net --allow-special --allow-unix --allow-userns --backend --block --block-existing -c --cache --clear-env --commit --cpus --credential --device --dir --direct --discard --disk --engine --env --explain --fsize --grace --home --home-size --idle-io --inodes --keep --learn-net --memory --net --net-by --nice --nofile -o --on --output --own-ids --pids --preset --project --protect --publish -q --report --ro --rw --sandbox --session --swap --timeout --watch --why' rest=(command none+) ;;
	config) flags='-C --allow-exec --allow-net --allow-special --allow-unix --allow-userns --backend --block --block-existing -c --cache --clear-env --commit --cpus --credential --device --dir --direct --discard --disk --engine --env --explain --fsize --grace --home --home-size --idle-io --inodes --json --keep --learn-net --memory --net --net-by --nice --nofile --on --output --own-ids --pids --preset --project --protect --publish -q --report --ro --rw --sandbox --session --swap --timeout --watch --why' rest=(choice:check,show,schema,init command none+) ;;
	trust) flags='--json --list --revoke' rest=(path) ;;
	ls) flags='--all --json -q --size' rest=() ;;
	show) flags='--json' rest=(session) ;;
	diff) flags='--color --name-status --patch --stat' rest=(session path+) ;;
	review) flags='--allow-special --allow-unsynced' rest=(session) ;;
	commit) flags='--allow-exec --allow-special --allow-unsynced --exclude --merge --ours -q --theirs' rest=(session path+) ;;
	discard) flags='-q' rest=(session+) ;;
	drop) flags='-q' rest=(session path+) ;;
	undo) flags='--force -q' rest=(session) ;;
	files) flags='--backups --json --scan' rest=(path+) ;;
	log) flags='--all --json -n -p --patch --session' rest=(none path) ;;
	restore) flags='--date --from --json --list -q --to' rest=(path) ;;
	watch) flags='--engine --json -q' rest=(dir+) ;;
	home) flags='--all --allow-exec --files --json --project --replace' rest=(choice:show,reset,keep path+) ;;
	gc) flags='--dry-run --keep-committed --kept --older --playground -q --yes' rest=(session+) ;;
	doctor) flags='--fix --json --print --sessions' rest=() ;;
	mcp) flags='--allow-net --allow-unix --allow-userns --ask-timeout --backend --block --block-existing --clear-env --commit --credential --device --discard --env --home --keep --max-output --net-by --own-ids --preset --project --protect --publish --ro --rw --sandbox --text-only --timeout' rest=() ;;
	completion) flags='' rest=(choice:bash,zsh,fish) ;;
	man) flags='--markdown' rest=() ;;
	version) flags='' rest=() ;;
	help) flags='' rest=(verb) ;;
	*) return 1 ;;
	esac
}

# _nsrun_split sets words to the words up to the cursor, at to where in COMP_WORDS
# each begins, cword to the last one and cur to that itself: readline splits words
# at = and : too.
_nsrun_split() {
	local i word line=${COMP_LINE:0:COMP_POINT}
	words=() at=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
			line=${line#"${line%%[![:space:]]*}"}
			words+=("") at+=("$i")
		fi
		[[ $line == "$word"* ]] || word=$line # the cursor is in it
		words[${#words[@]} - 1]+=$word
		line=${line#"$word"}
	done
	cword=$((${#words[@]} - 1))
	cur=${words[cword]}
}

# _nsrun_among WORDS completes cur as one of them.
_nsrun_among() {
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# _nsrun_complete KIND completes cur as a word of that kind.
_nsrun_complete() {
	local file name
	case $1 in
	path) compopt -o default ;; # readline's own completion of files
	dir) compopt -o dirnames ;;
	cap)
		name=$_nsrun_caps
		[[ $cur == [a-z]* ]] && name=${name,,}
		_nsrun_among "$name"
		;;
	netns)
		if [[ $cur == */* ]]; then
			compopt -o default
			return
		fi
		for file in /run/netns/*; do
			name=${file##*/}
			[[ -e $file && $name == "$cur"* ]] && COMPREPLY+=("$name")
		done
		;;
	session) _nsrun_among "last $("${words[0]}" ls --all 2>/dev/null | cut -d ' ' -f 1)" ;;
	var) mapfile -t COMPREPLY < <(compgen -A export -- "$cur") ;;
	verb) _nsrun_among "$_nsrun_verbs" ;;
	choice:*)
		name=${1#choice:}
		_nsrun_among "${name//,/ }"
		;;
	esac
}

# _nsrun_command N completes the command that begins with words[N], and its
# arguments in the way they are completed without nsrun.
_nsrun_command() {
	local i first=${at[$1]} line=$COMP_LINE spec
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "$first"
		return
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$first"
		return
	fi
	# Without the package bash-completion.
	if (($1 == cword)); then
		compopt -o filenames
		if [[ $cur == */* ]]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u)
		fi
		return
	fi
	spec=$(complete -p -- "${words[$1]##*/}" 2>/dev/null)
	if [[ $spec != *' -F '* ]]; then
		compopt -o default
		return
	fi
	for i in bashdefault default dirnames filenames nospace plusdirs; do
		[[ $spec == *" -o $i "* ]] && compopt -o "$i"
	done
	for ((i = 0; i < first; i++)); do
		line=${line#*"${COMP_WORDS[i]}"}
	done
	line=${line#"${line%%[![:space:]]*}"}
	COMP_POINT=$((COMP_POINT - ${#COMP_LINE} + ${#line})) COMP_LINE=$line
	COMP_WORDS=("${COMP_WORDS[@]:first}") COMP_CWORD=$((COMP_CWORD - first))
	spec=${spec#*' -F '}
	"${spec%% *}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
}

# _nsrun_verb completes what follows a verb, whose flags and rest are set.
_nsrun_verb() {
	local i=2 n verb=${words[1]} name dashes=
	while ((i < cword)); do
		case ${words[i]} in
		--)
			((i++))
			dashes=done
			break
			;;
		-*=*) ((i++)) ;;
		-?*)
			name=${words[i]#-}
			_nsrun_flag "$verb" "${name#-}"
			if ((${#kinds[@]} > 0 && i + 1 == cword)); then
				_nsrun_complete "${kinds[0]}"
				return
			fi
			((i += 1 + ${#kinds[@]}))
			;;
		*) break ;;
		esac
	done
	if ((i == cword)) && [[ -z $dashes && $cur == -* ]]; then
		if [[ $cur == *=* ]]; then
			name=${cur%%=*} name=${name#-} cur=${cur#*=}
			_nsrun_flag "$verb" "${name#-}"
			((${#kinds[@]} > 0)) && _nsrun_complete "${kinds[0]}"
			return
		fi
		_nsrun_among "$flags"
		return
	fi
	for ((n = 0; n < ${#rest[@]}; n++)); do
		if [[ ${rest[n]} == command ]]; then
			_nsrun_command "$((i + n))"
			return
		elif ((i + n == cword)) || [[ ${rest[n]} == *+ ]]; then
			_nsrun_complete "${rest[n]%+}"
			return
		fi
	done
}

_nsrun() {
	local words at cword cur kinds flags rest i=1 n options=$_nsrun_options
	COMPREPLY=()
	_nsrun_split
	((cword > 0)) || return
	if [[ ${1##*/} != bwrap ]]; then
		options+=$_nsrun_own
		if ((cword == 1)) && [[ $cur != -* ]]; then
			_nsrun_among "$_nsrun_verbs"
			return
		elif ((cword > 1)) && _nsrun_flags "${words[1]}"; then
			_nsrun_verb
			return
		fi
	fi
	while ((i < cword)); do
		case ${words[i]} in
		--)
			((i++))
			break
			;;
		-*)
			_nsrun_kinds "${words[i]}"
			n=$((cword - i - 1))
			if ((n < ${#kinds[@]})); then
				_nsrun_complete "${kinds[n]}"
				return
			fi
			((i += 1 + ${#kinds[@]}))
			;;
		*) break ;;
		esac
	done
	if ((i == cword)) && [[ $cur == -* && ${words[i - 1]} != -- ]]; then
		_nsrun_among "$options"
	else
		_nsrun_command "$i"
	fi
}

complete -F _nsrun nsrun
if [[ ${BASH_SOURCE[0]} == */bwrap || $(type -P bwrap) -ef $(type -P nsrun) ]]; then
	complete -F _nsrun bwrap
fi
