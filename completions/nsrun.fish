# fish completion for nsrun, and for bwrap where that is nsrun.
# Made by make generate: edit internal/manual/nsrun.fish.in or the tables.

# bwrap's options, and those that only nsrun has, with what they do.
function __nsrun_options
	printf '%s\n' \
		'--help	Show this text and exit' \
		'--version	Show the version and exit' \
		'--args	Read more options from descriptor FD, each ended by a NUL byte' \
		'--level-prefix	Start every message with its severity, as <3> or <4>' \
		'--unshare-all	New namespaces of all kinds (user and cgroup as by the -try forms)' \
		'--share-net	Stay in the caller\'s network after --unshare-all' \
		'--unshare-user	New user namespace (a caller other than root always gets one)' \
		'--unshare-user-try	New user namespace where the system has them' \
		'--unshare-ipc	New IPC namespace' \
		'--unshare-pid	New process-id namespace' \
		'--unshare-net	New network namespace, with loopback and nothing else' \
		'--unshare-uts	New hostname namespace' \
		'--unshare-cgroup	New cgroup namespace' \
		'--unshare-cgroup-try	New cgroup namespace where the system has them' \
		'--userns	Join the user namespace FD refers to (not with --unshare-user)' \
		'--userns2	Join this user namespace once the mounts are done (with --userns)' \
		'--disable-userns	Let nothing inside make user namespaces (needs --unshare-user)' \
		'--assert-userns-disabled	Refuse to start if something inside could make user namespaces' \
		'--pidns	Join this process-id namespace (with --unshare-pid: make one below it)' \
		'--uid	User id inside (needs --unshare-user or --userns)' \
		'--gid	Group id inside (needs --unshare-user or --userns)' \
		'--hostname	Hostname inside (needs --unshare-uts)' \
		'--clearenv	Drop all variables' \
		'--setenv	Set a variable' \
		'--unsetenv	Drop a variable' \
		'--bind	Show the host\'s SRC at DEST, writable' \
		'--bind-try	The same, or nothing if SRC does not exist' \
		'--ro-bind	Show the host\'s SRC at DEST, read-only' \
		'--ro-bind-try	The same, or nothing if SRC does not exist' \
		'--dev-bind	Show the host\'s SRC at DEST, writable, device files usable' \
		'--dev-bind-try	The same, or nothing if SRC does not exist' \
		'--bind-fd	Show the file or directory open as FD at DEST, writable' \
		'--ro-bind-fd	Show the file or directory open as FD at DEST, read-only' \
		'--remount-ro	Make the mount at DEST read-only, but not what is mounted below it' \
		'--proc	A proc file system at DEST' \
		'--dev	A minimal /dev at DEST' \
		'--tmpfs	An empty tmpfs at DEST (--perms, --size)' \
		'--mqueue	A POSIX message queue file system at DEST' \
		'--overlay-src	A read-only layer of the overlay that follows, above those before it' \
		'--overlay	Stack the layers at DEST; writes go to RWSRC on the host. WORKDIR: an empty directory on the file system of RWSRC' \
		'--tmp-overlay	Stack the layers at DEST; writes are forgotten at the end' \
		'--ro-overlay	Stack two or more layers at DEST, read-only' \
		'--dir	A directory at DEST, unless there is one (--perms)' \
		'--file	A file at DEST with what can be read from FD (--perms)' \
		'--bind-data	The same, mounted over DEST, writable (--perms)' \
		'--ro-bind-data	The same, mounted over DEST, read-only (--perms)' \
		'--symlink	A symbolic link at DEST that points to TARGET' \
		'--chmod	Change the permissions of DEST, which has to exist' \
		'--perms	Permissions of what the next option makes' \
		'--size	Size limit of the tmpfs the next option makes' \
		'--argv0	Give COMMAND this as its own name' \
		'--chdir	Start COMMAND in DIR' \
		'--new-session	Detach COMMAND from the terminal' \
		'--die-with-parent	Kill everything with SIGKILL when the caller dies' \
		'--as-pid-1	Make COMMAND process 1 itself (needs --unshare-pid)' \
		'--lock-file	Hold a read lock on DEST, a file inside, while the sandbox lives' \
		'--cap-add	Give COMMAND a capability (ALL: every one)' \
		'--cap-drop	Take a capability (ALL: every one) from COMMAND' \
		'--seccomp	Filter system calls by the BPF program read from FD' \
		'--add-seccomp-fd	The same; may be repeated (not with --seccomp)' \
		'--exec-label	SELinux label of COMMAND' \
		'--file-label	SELinux label of the files that are made' \
		'--not-a-security-boundary	Only warn where parts of the set-up fail; for sandboxes that protect nothing' \
		'--sync-fd	Keep FD open while the sandbox lives' \
		'--block-fd	Start COMMAND once something can be read from FD' \
		'--userns-block-fd	Leave the id maps to the caller and wait for FD (needs --info-fd)' \
		'--info-fd	Write process id and namespaces to FD, as JSON' \
		'--json-status-fd	Write start and exit to FD, a JSON document each'
end

function __nsrun_own
	printf '%s\n' \
		'--netns	Join a network namespace, by name or by path' \
		'--allow-loopback-failure	With --unshare-net, do without loopback if it cannot be set up' \
		'--uid-map	Map a range of user ids, besides the caller\'s own, which is UID; with newuidmap where that is needed; may be repeated (needs --unshare-user)' \
		'--gid-map	Map a range of group ids, likewise' \
		'--create-mount-points	Make DESTs that are missing below read-only binds, in the sandbox only' \
		'--overlay-hide	Leave out PATH, relative to the overlay, of the overlay that follows; may be repeated' \
		'--overlay-submounts	Show what is mounted below the layers of the overlay that follows, read-only (root only: others get no overlay of such a layer)' \
		'--forward-signals	Pass signals on to COMMAND' \
		'--exit-codes	Exit with 125, 126 or 127 if COMMAND could not be started' \
		'--kill-on-exit	Kill what is left in the sandbox when COMMAND ends (needs --unshare-pid)' \
		'--seccomp-file	Filter system calls by the BPF program in FILE; may be repeated'
end

function __nsrun_verbs
	printf '%s\n' \
		'run	run a command in a sandbox over the project' \
		'policy	show what a command would see, write to and reach' \
		'why	explain what a command could do with a path, a socket or a host' \
		'learn	find the smallest configuration with which a command succeeds' \
		'config	check, show or create configuration files, or print their schema' \
		'trust	trust a project\'s .nsrun.toml as it is now' \
		'ls	list sessions' \
		'show	show what a session changed' \
		'diff	show what a session changed in files' \
		'review	choose interactively what to commit and what to drop' \
		'commit	copy a session\'s changes to the project' \
		'discard	throw away a session\'s changes' \
		'drop	throw away a part of a session\'s changes' \
		'undo	take back the last commit, drop or discard' \
		'files	list registered files and their backups' \
		'log	show past commands and what they changed' \
		'restore	put a file back as it was' \
		'watch	print changes in directories as they happen' \
		'home	show, remove or keep what commands wrote below the home directory' \
		'gc	remove old sessions and backups' \
		'doctor	check kernel support and the state of sessions' \
		'mcp	serve agents over the Model Context Protocol' \
		'completion	print a shell\'s completion script' \
		'man	print the man page' \
		'version	print the version, and how this binary starts' \
		'help	explain a verb, or list the presets'
end

function __nsrun_caps
	printf '%s\n' \
		ALL \
		CAP_CHOWN \
		CAP_DAC_OVERRIDE \
		CAP_DAC_READ_SEARCH \
		CAP_FOWNER \
		CAP_FSETID \
		CAP_KILL \
		CAP_SETGID \
		CAP_SETUID \
		CAP_SETPCAP \
		CAP_LINUX_IMMUTABLE \
		CAP_NET_BIND_SERVICE \
		CAP_NET_BROADCAST \
		CAP_NET_ADMIN \
		CAP_NET_RAW \
		CAP_IPC_LOCK \
		CAP_IPC_OWNER \
		CAP_SYS_MODULE \
		CAP_SYS_RAWIO \
		CAP_SYS_CHROOT \
		CAP_SYS_PTRACE \
		CAP_SYS_PACCT \
		CAP_SYS_ADMIN \
		CAP_SYS_BOOT \
		CAP_SYS_NICE \
		CAP_SYS_RESOURCE \
		CAP_SYS_TIME \
		CAP_SYS_TTY_CONFIG \
		CAP_MKNOD \
		CAP_LEASE \
		CAP_AUDIT_WRITE \
		CAP_AUDIT_CONTROL \
		CAP_SETFCAP \
		CAP_MAC_OVERRIDE \
		CAP_MAC_ADMIN \
		CAP_SYSLOG \
		CAP_WAKE_ALARM \
		CAP_BLOCK_SUSPEND \
		CAP_AUDIT_READ \
		CAP_PERFMON \
		CAP_BPF \
		CAP_CHECKPOINT_RESTORE
end

# The kinds of an option's words.
function __nsrun_kinds -a option
	switch $option
	case --args --userns --userns2 --pidns --uid --gid --uid-map --gid-map --hostname --perms --size --argv0 --seccomp --add-seccomp-fd --exec-label --file-label --sync-fd --block-fd --userns-block-fd --info-fd --json-status-fd
		printf '%s\n' none
	case --netns
		printf '%s\n' netns
	case --setenv
		printf '%s\n' var none
	case --unsetenv
		printf '%s\n' var
	case --bind --bind-try --ro-bind --ro-bind-try --dev-bind --dev-bind-try --symlink
		printf '%s\n' path path
	case --bind-fd --ro-bind-fd --file --bind-data --ro-bind-data --chmod
		printf '%s\n' none path
	case --remount-ro --proc --dev --tmpfs --mqueue --overlay-src --tmp-overlay --ro-overlay --overlay-hide --dir --lock-file --seccomp-file
		printf '%s\n' path
	case --overlay
		printf '%s\n' dir dir path
	case --chdir
		printf '%s\n' dir
	case --cap-add --cap-drop
		printf '%s\n' cap
	end
end

# The kind of the word of a verb's flag, which has no dashes here.
function __nsrun_flag -a verb flag
	switch "$verb $flag"
	case 'run C'
		echo dir
	case 'run allow-net'
		echo none
	case 'run allow-unix'
		echo path
	case 'run backend'
		echo choice:auto,native,landlock
	case 'run block'
		echo path
	case 'run c'
		echo none
	case 'run cache'
		echo dir
	case 'run cpus'
		echo none
	case 'run credential'
		echo none
	case 'run device'
		echo choice:nvidia,dri,kvm,PATH
	case 'run dir'
		echo dir
	case 'run disk'
		echo none
	case 'run engine'
		echo choice:overlay,tmpfs,copy
	case 'run env'
		echo var
	case 'run fsize'
		echo none
	case 'run grace'
		echo none
	case 'run home'
		echo choice:layer,none
	case 'run home-size'
		echo none
	case 'run inodes'
		echo none
	case 'run memory'
		echo none
	case 'run net'
		echo choice:none,host
	case 'run net-by'
		echo choice:kernel,broker
	case 'run nice'
		echo none
	case 'run nofile'
		echo none
	case 'run on'
		echo session
	case 'run output'
		echo none
	case 'run pids'
		echo none
	case 'run preset'
		echo choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github
	case 'run project'
		echo dir
	case 'run protect'
		echo path
	case 'run publish'
		echo none
	case 'run report'
		echo path
	case 'run ro'
		echo path
	case 'run rw'
		echo path
	case 'run sandbox'
		echo choice:required,preferred,disabled
	case 'run session'
		echo session
	case 'run swap'
		echo none
	case 'run timeout'
		echo none
	case 'policy C'
		echo dir
	case 'policy allow-net'
		echo none
	case 'policy allow-unix'
		echo path
	case 'policy backend'
		echo choice:auto,native,landlock
	case 'policy block'
		echo path
	case 'policy c'
		echo none
	case 'policy cache'
		echo dir
	case 'policy cpus'
		echo none
	case 'policy credential'
		echo none
	case 'policy device'
		echo choice:nvidia,dri,kvm,PATH
	case 'policy dir'
		echo dir
	case 'policy disk'
		echo none
	case 'policy engine'
		echo choice:overlay,tmpfs,copy
	case 'policy env'
		echo var
	case 'policy fsize'
		echo none
	case 'policy grace'
		echo none
	case 'policy home'
		echo choice:layer,none
	case 'policy home-size'
		echo none
	case 'policy inodes'
		echo none
	case 'policy memory'
		echo none
	case 'policy net'
		echo choice:none,host
	case 'policy net-by'
		echo choice:kernel,broker
	case 'policy nice'
		echo none
	case 'policy nofile'
		echo none
	case 'policy on'
		echo session
	case 'policy output'
		echo none
	case 'policy pids'
		echo none
	case 'policy preset'
		echo choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github
	case 'policy project'
		echo dir
	case 'policy protect'
		echo path
	case 'policy publish'
		echo none
	case 'policy report'
		echo path
	case 'policy ro'
		echo path
	case 'policy rw'
		echo path
	case 'policy sandbox'
		echo choice:required,preferred,disabled
	case 'policy session'
		echo session
	case 'policy swap'
		echo none
	case 'policy timeout'
		echo none
	case 'why C'
		echo dir
	case 'why allow-net'
		echo none
	case 'why allow-unix'
		echo path
	case 'why backend'
		echo choice:auto,native,landlock
	case 'why block'
		echo path
	case 'why c'
		echo none
	case 'why cache'
		echo dir
	case 'why cpus'
		echo none
	case 'why credential'
		echo none
	case 'why device'
		echo choice:nvidia,dri,kvm,PATH
	case 'why dir'
		echo dir
	case 'why disk'
		echo none
	case 'why engine'
		echo choice:overlay,tmpfs,copy
	case 'why env'
		echo var
	case 'why fsize'
		echo none
	case 'why grace'
		echo none
	case 'why home'
		echo choice:layer,none
	case 'why home-size'
		echo none
	case 'why inodes'
		echo none
	case 'why memory'
		echo none
	case 'why net'
		echo choice:none,host
	case 'why net-by'
		echo choice:kernel,broker
	case 'why nice'
		echo none
	case 'why nofile'
		echo none
	case 'why on'
		echo session
	case 'why output'
		echo none
	case 'why pids'
		echo none
	case 'why preset'
		echo choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github
	case 'why project'
		echo dir
	case 'why protect'
		echo path
	case 'why publish'
		echo none
	case 'why report'
		echo path
	case 'why ro'
		echo path
	case 'why rw'
		echo path
	case 'why sandbox'
		echo choice:required,preferred,disabled
	case 'why session'
		echo session
	case 'why swap'
		echo none
	case 'why timeout'
		echo none
	case 'learn C'
		echo dir
	case 'learn allow-net'
		echo none
	case 'learn allow-unix'
		echo path
	case 'learn backend'
		echo choice:auto,native,landlock
	case 'learn block'
		echo path
	case 'learn c'
		echo none
	case 'learn cache'
		echo dir
	case 'learn cpus'
		echo none
	case 'learn credential'
		echo none
	case 'learn device'
		echo choice:nvidia,dri,kvm,PATH
	case 'learn dir'
		echo dir
	case 'learn disk'
		echo none
	case 'learn engine'
		echo choice:overlay,tmpfs,copy
	case 'learn env'
		echo var
	case 'learn fsize'
		echo none
	case 'learn grace'
		echo none
	case 'learn home'
		echo choice:layer,none
	case 'learn home-size'
		echo none
	case 'learn inodes'
		echo none
	case 'learn memory'
		echo none
	case 'learn net'
		echo choice:none,host
	case 'learn net-by'
		echo choice:kernel,broker
	case 'learn nice'
		echo none
	case 'learn nofile'
		echo none
	case 'learn o'
		echo path
	case 'learn on'
		echo session
	case 'learn output'
		echo none
	case 'learn pids'
		echo none
	case 'learn preset'
		echo choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github
	case 'learn project'
		echo dir
	case 'learn protect'
		echo path
	case 'learn publish'
		echo none
	case 'learn report'
		echo path
	case 'learn ro'
		echo path
	case 'learn rw'
		echo path
	case 'learn sandbox'
		echo choice:required,preferred,disabled
	case 'learn session'
		echo session
	case 'learn swap'
		echo none
	case 'learn timeout'
		echo none
	case 'config C'
		echo dir
	case 'config allow-net'
		echo none
	case 'config allow-unix'
		echo path
	case 'config backend'
		echo choice:auto,native,landlock
	case 'config block'
		echo path
	case 'config c'
		echo none
	case 'config cache'
		echo dir
	case 'config cpus'
		echo none
	case 'config credential'
		echo none
	case 'config device'
		echo choice:nvidia,dri,kvm,PATH
	case 'config dir'
		echo dir
	case 'config disk'
		echo none
	case 'config engine'
		echo choice:overlay,tmpfs,copy
	case 'config env'
		echo var
	case 'config fsize'
		echo none
	case 'config grace'
		echo none
	case 'config home'
		echo choice:layer,none
	case 'config home-size'
		echo none
	case 'config inodes'
		echo none
	case 'config memory'
		echo none
	case 'config net'
		echo choice:none,host
	case 'config net-by'
		echo choice:kernel,broker
	case 'config nice'
		echo none
	case 'config nofile'
		echo none
	case 'config on'
		echo session
	case 'config output'
		echo none
	case 'config pids'
		echo none
	case 'config preset'
		echo choice:default,build,test,git,strict,workspace-root,browser,npm,pypi,go,cargo,debian,github
	case 'config project'
		echo dir
	case 'config protect'
		echo path
	case 'config publish'
		echo none
	case 'config report'
		echo path
	case 'config ro'
		echo path
	case 'config rw'
		echo path
	case 'config sandbox'
		echo choice:required,preferred,disabled
	case 'config session'
		echo session
	case 'config swap'
		echo none
	case 'config timeout'
		echo none
	case 'diff color'
		echo choice:auto,always,never
	case 'commit exclude'
		echo path
	case 'log n'
		echo none
	case 'log session'
		echo session
	case 'restore date'
		echo none
	case 'restore from'
		echo none
	case 'restore to'
		echo path
	case 'watch engine'
		echo choice:auto,fanotify,inotify
	case 'home project'
		echo dir
	case 'gc older'
		echo none
	case 'mcp allow-net'
		echo none
	case 'mcp allow-unix'
		echo path
	case 'mcp ask-timeout'
		echo none
	case 'mcp backend'
		echo choice:auto,native,landlock
	case 'mcp block'
		echo path
	case 'mcp credential'
		echo none
	case 'mcp device'
		echo choice:nvidia,dri,kvm,PATH
	case 'mcp env'
		echo var
	case 'mcp home'
		echo choice:layer,none
	case 'mcp max-output'
		echo none
	case 'mcp net-by'
		echo choice:kernel,broker
	case 'mcp preset'
		echo choice:default,build
	case 'mcp project'
		echo dir
	case 'mcp protect'
		echo path
	case 'mcp publish'
		echo none
	case 'mcp ro'
		echo path
	case 'mcp rw'
		echo path
	case 'mcp sandbox'
		echo choice:required,preferred,disabled
	case 'mcp timeout'
		echo none
	end
end

# The flags of a verb, with what they do.
function __nsrun_flags -a verb
	switch $verb
	case run
		printf '%s\n' \
			'-C	working directory' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-net	allow connections that match RULE, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let the command make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide path, even if it is created while the command runs; !path is an exception' \
			'--block-existing	run the command even if --block can only hide what exists when it starts' \
			'-c	run a shell string with /bin/sh -c' \
			'--cache	treat a directory below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit the changes if the command succeeds' \
			'--cpus	allow the time of N processors, such as 1.5' \
			'--credential	add a secret to requests to a host, without showing it to the command: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let the command use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--dir	working directory' \
			'--direct	write directly to the project, without an overlay; .git is read-only, except with --preset git' \
			'--discard	discard the changes afterwards' \
			'--disk	kill the command when its changes in the session take more than SIZE' \
			'--engine	keep changes apart with overlay|tmpfs|copy (default: chosen by the file system)' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--explain	print what would be done, and do nothing; --explain=policy prints what nsrun policy does' \
			'--fsize	allow no file to grow beyond SIZE' \
			'--grace	after --timeout, kill the command this duration after SIGTERM (default 2s)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--home-size	keep at most SIZE in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)' \
			'--idle-io	let the command use disks only when nothing else does' \
			'--inodes	kill the command when it creates more than N files in its session' \
			'--keep	keep the changes as a session, without asking' \
			'--learn-net	after approval, allow all connections (with the broker, all except to this host\'s 127.0.0.1), and print the rules that would be enough' \
			'--memory	kill the command and all its processes when they use more memory than SIZE (512M, 2G)' \
			'--net	use the network none|host; host is this host\'s own network, and needs approval every time' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--nice	lower the command\'s priority by N, 1 to 19' \
			'--nofile	allow each process at most N open files' \
			'--on	start a new session on top of SESSION; the command sees the changes of both' \
			'--output	kill the command when it writes more than SIZE to standard output and standard error, which are then pipes' \
			'--own-ids	for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions' \
			'--pids	allow at most N processes and threads' \
			'--preset	use a preset, or several separated by commas: default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github (repeatable; nsrun help presets explains them)' \
			'--project	project root directory (repeatable; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to path, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)' \
			'--publish	make the command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'-q	do not print what changed or was denied' \
			'--report	write a JSON report to a file, a descriptor number, or - for standard output' \
			'--ro	make path read-only' \
			'--rw	make path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)' \
			'--session	continue a kept SESSION, in its roots; the working directory is the first of them' \
			'--swap	with --memory, allow SIZE of swap, or max for no limit (default: none)' \
			'--timeout	end the command after this duration' \
			'--watch	print what the command changes as it happens' \
			'--why	find out what the command was refused, and which flag would allow it; this takes longer'
	case policy
		printf '%s\n' \
			'-C	working directory' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-net	allow connections that match RULE, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let the command make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide path, even if it is created while the command runs; !path is an exception' \
			'--block-existing	run the command even if --block can only hide what exists when it starts' \
			'-c	run a shell string with /bin/sh -c' \
			'--cache	treat a directory below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit the changes if the command succeeds' \
			'--cpus	allow the time of N processors, such as 1.5' \
			'--credential	add a secret to requests to a host, without showing it to the command: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let the command use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--dir	working directory' \
			'--direct	write directly to the project, without an overlay; .git is read-only, except with --preset git' \
			'--discard	discard the changes afterwards' \
			'--disk	kill the command when its changes in the session take more than SIZE' \
			'--engine	keep changes apart with overlay|tmpfs|copy (default: chosen by the file system)' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--explain	print what would be done, and do nothing; --explain=policy prints what nsrun policy does' \
			'--fsize	allow no file to grow beyond SIZE' \
			'--grace	after --timeout, kill the command this duration after SIGTERM (default 2s)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--home-size	keep at most SIZE in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)' \
			'--idle-io	let the command use disks only when nothing else does' \
			'--inodes	kill the command when it creates more than N files in its session' \
			'--json	print JSON' \
			'--keep	keep the changes as a session, without asking' \
			'--learn-net	after approval, allow all connections (with the broker, all except to this host\'s 127.0.0.1), and print the rules that would be enough' \
			'--memory	kill the command and all its processes when they use more memory than SIZE (512M, 2G)' \
			'--net	use the network none|host; host is this host\'s own network, and needs approval every time' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--nice	lower the command\'s priority by N, 1 to 19' \
			'--nofile	allow each process at most N open files' \
			'--on	start a new session on top of SESSION; the command sees the changes of both' \
			'--output	kill the command when it writes more than SIZE to standard output and standard error, which are then pipes' \
			'--own-ids	for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions' \
			'--pids	allow at most N processes and threads' \
			'--preset	use a preset, or several separated by commas: default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github (repeatable; nsrun help presets explains them)' \
			'--project	project root directory (repeatable; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to path, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)' \
			'--publish	make the command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'-q	do not print what changed or was denied' \
			'--report	write a JSON report to a file, a descriptor number, or - for standard output' \
			'--ro	make path read-only' \
			'--rw	make path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)' \
			'--session	continue a kept SESSION, in its roots; the working directory is the first of them' \
			'--swap	with --memory, allow SIZE of swap, or max for no limit (default: none)' \
			'--timeout	end the command after this duration' \
			'--watch	print what the command changes as it happens' \
			'--why	find out what the command was refused, and which flag would allow it; this takes longer'
	case why
		printf '%s\n' \
			'-C	working directory' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-net	allow connections that match RULE, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let the command make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide path, even if it is created while the command runs; !path is an exception' \
			'--block-existing	run the command even if --block can only hide what exists when it starts' \
			'-c	run a shell string with /bin/sh -c' \
			'--cache	treat a directory below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit the changes if the command succeeds' \
			'--cpus	allow the time of N processors, such as 1.5' \
			'--credential	add a secret to requests to a host, without showing it to the command: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let the command use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--dir	working directory' \
			'--direct	write directly to the project, without an overlay; .git is read-only, except with --preset git' \
			'--discard	discard the changes afterwards' \
			'--disk	kill the command when its changes in the session take more than SIZE' \
			'--engine	keep changes apart with overlay|tmpfs|copy (default: chosen by the file system)' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--explain	print what would be done, and do nothing; --explain=policy prints what nsrun policy does' \
			'--fsize	allow no file to grow beyond SIZE' \
			'--grace	after --timeout, kill the command this duration after SIGTERM (default 2s)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--home-size	keep at most SIZE in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)' \
			'--idle-io	let the command use disks only when nothing else does' \
			'--inodes	kill the command when it creates more than N files in its session' \
			'--json	print JSON' \
			'--keep	keep the changes as a session, without asking' \
			'--learn-net	after approval, allow all connections (with the broker, all except to this host\'s 127.0.0.1), and print the rules that would be enough' \
			'--memory	kill the command and all its processes when they use more memory than SIZE (512M, 2G)' \
			'--net	use the network none|host; host is this host\'s own network, and needs approval every time' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--nice	lower the command\'s priority by N, 1 to 19' \
			'--nofile	allow each process at most N open files' \
			'--on	start a new session on top of SESSION; the command sees the changes of both' \
			'--output	kill the command when it writes more than SIZE to standard output and standard error, which are then pipes' \
			'--own-ids	for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions' \
			'--pids	allow at most N processes and threads' \
			'--preset	use a preset, or several separated by commas: default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github (repeatable; nsrun help presets explains them)' \
			'--project	project root directory (repeatable; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to path, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)' \
			'--publish	make the command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'-q	do not print what changed or was denied' \
			'--report	write a JSON report to a file, a descriptor number, or - for standard output' \
			'--ro	make path read-only' \
			'--rw	make path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)' \
			'--session	continue a kept SESSION, in its roots; the working directory is the first of them' \
			'--swap	with --memory, allow SIZE of swap, or max for no limit (default: none)' \
			'--timeout	end the command after this duration' \
			'--watch	print what the command changes as it happens' \
			'--why	find out what the command was refused, and which flag would allow it; this takes longer'
	case learn
		printf '%s\n' \
			'-C	working directory' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-net	allow connections that match RULE, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let the command make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide path, even if it is created while the command runs; !path is an exception' \
			'--block-existing	run the command even if --block can only hide what exists when it starts' \
			'-c	run a shell string with /bin/sh -c' \
			'--cache	treat a directory below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit the changes if the command succeeds' \
			'--cpus	allow the time of N processors, such as 1.5' \
			'--credential	add a secret to requests to a host, without showing it to the command: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let the command use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--dir	working directory' \
			'--direct	write directly to the project, without an overlay; .git is read-only, except with --preset git' \
			'--discard	discard the changes afterwards' \
			'--disk	kill the command when its changes in the session take more than SIZE' \
			'--engine	keep changes apart with overlay|tmpfs|copy (default: chosen by the file system)' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--explain	print what would be done, and do nothing; --explain=policy prints what nsrun policy does' \
			'--fsize	allow no file to grow beyond SIZE' \
			'--grace	after --timeout, kill the command this duration after SIGTERM (default 2s)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--home-size	keep at most SIZE in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)' \
			'--idle-io	let the command use disks only when nothing else does' \
			'--inodes	kill the command when it creates more than N files in its session' \
			'--keep	keep the changes as a session, without asking' \
			'--learn-net	after approval, allow all connections (with the broker, all except to this host\'s 127.0.0.1), and print the rules that would be enough' \
			'--memory	kill the command and all its processes when they use more memory than SIZE (512M, 2G)' \
			'--net	use the network none|host; host is this host\'s own network, and needs approval every time' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--nice	lower the command\'s priority by N, 1 to 19' \
			'--nofile	allow each process at most N open files' \
			'-o	write the configuration to a new file' \
			'--on	start a new session on top of SESSION; the command sees the changes of both' \
			'--output	kill the command when it writes more than SIZE to standard output and standard error, which are then pipes' \
			'--own-ids	for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions' \
			'--pids	allow at most N processes and threads' \
			'--preset	use a preset, or several separated by commas: default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github (repeatable; nsrun help presets explains them)' \
			'--project	project root directory (repeatable; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to path, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)' \
			'--publish	make the command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'-q	do not print what changed or was denied' \
			'--report	write a JSON report to a file, a descriptor number, or - for standard output' \
			'--ro	make path read-only' \
			'--rw	make path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)' \
			'--session	continue a kept SESSION, in its roots; the working directory is the first of them' \
			'--swap	with --memory, allow SIZE of swap, or max for no limit (default: none)' \
			'--timeout	end the command after this duration' \
			'--watch	print what the command changes as it happens' \
			'--why	find out what the command was refused, and which flag would allow it; this takes longer'
	case config
		printf '%s\n' \
			'-C	working directory' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-net	allow connections that match RULE, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let the command make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide path, even if it is created while the command runs; !path is an exception' \
			'--block-existing	run the command even if --block can only hide what exists when it starts' \
			'-c	run a shell string with /bin/sh -c' \
			'--cache	treat a directory below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit the changes if the command succeeds' \
			'--cpus	allow the time of N processors, such as 1.5' \
			'--credential	add a secret to requests to a host, without showing it to the command: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let the command use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--dir	working directory' \
			'--direct	write directly to the project, without an overlay; .git is read-only, except with --preset git' \
			'--discard	discard the changes afterwards' \
			'--disk	kill the command when its changes in the session take more than SIZE' \
			'--engine	keep changes apart with overlay|tmpfs|copy (default: chosen by the file system)' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--explain	print what would be done, and do nothing; --explain=policy prints what nsrun policy does' \
			'--fsize	allow no file to grow beyond SIZE' \
			'--grace	after --timeout, kill the command this duration after SIGTERM (default 2s)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--home-size	keep at most SIZE in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)' \
			'--idle-io	let the command use disks only when nothing else does' \
			'--inodes	kill the command when it creates more than N files in its session' \
			'--json	print JSON' \
			'--keep	keep the changes as a session, without asking' \
			'--learn-net	after approval, allow all connections (with the broker, all except to this host\'s 127.0.0.1), and print the rules that would be enough' \
			'--memory	kill the command and all its processes when they use more memory than SIZE (512M, 2G)' \
			'--net	use the network none|host; host is this host\'s own network, and needs approval every time' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--nice	lower the command\'s priority by N, 1 to 19' \
			'--nofile	allow each process at most N open files' \
			'--on	start a new session on top of SESSION; the command sees the changes of both' \
			'--output	kill the command when it writes more than SIZE to standard output and standard error, which are then pipes' \
			'--own-ids	for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions' \
			'--pids	allow at most N processes and threads' \
			'--preset	use a preset, or several separated by commas: default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github (repeatable; nsrun help presets explains them)' \
			'--project	project root directory (repeatable; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to path, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)' \
			'--publish	make the command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'-q	do not print what changed or was denied' \
			'--report	write a JSON report to a file, a descriptor number, or - for standard output' \
			'--ro	make path read-only' \
			'--rw	make path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)' \
			'--session	continue a kept SESSION, in its roots; the working directory is the first of them' \
			'--swap	with --memory, allow SIZE of swap, or max for no limit (default: none)' \
			'--timeout	end the command after this duration' \
			'--watch	print what the command changes as it happens' \
			'--why	find out what the command was refused, and which flag would allow it; this takes longer'
	case trust
		printf '%s\n' \
			'--json	print JSON' \
			'--list	list the files that are trusted, and whether they changed' \
			'--revoke	no longer trust the file'
	case ls
		printf '%s\n' \
			'--all	list the sessions of all projects' \
			'--json	print JSON' \
			'-q	print ids only' \
			'--size	measure all sessions, even if it takes long'
	case show
		printf '%s\n' \
			'--json	print JSON'
	case diff
		printf '%s\n' \
			'--color	use colours: auto|always|never' \
			'--name-status	print a letter and a path for each change' \
			'--patch	print a patch for git apply' \
			'--stat	print how many lines changed in each file'
	case review
		printf '%s\n' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unsynced	commit although files may be cut off, because the machine was restarted before the session was on disk'
	case commit
		printf '%s\n' \
			'--allow-exec	also commit files that would run later, such as hooks and editor settings' \
			'--allow-special	also commit setuid files, device nodes, FIFOs and the like' \
			'--allow-unsynced	commit although files may be cut off, because the machine was restarted before the session was on disk' \
			'--exclude	leave out a path, a pattern, or a name in any directory (repeatable)' \
			'--merge	if both sides changed a text, merge the changes; =PATH limits it to that path (repeatable)' \
			'--ours	if both sides changed a file, keep the project\'s version; =PATH limits it to that path (repeatable)' \
			'-q	say nothing on success' \
			'--theirs	if both sides changed a file, take the session\'s version; =PATH limits it to that path (repeatable)'
	case discard
		printf '%s\n' \
			'-q	say nothing on success'
	case drop
		printf '%s\n' \
			'-q	say nothing on success'
	case undo
		printf '%s\n' \
			'--force	undo even if the project changed since' \
			'-q	say nothing on success'
	case files
		printf '%s\n' \
			'--backups	list only files with a backup' \
			'--json	print JSON' \
			'--scan	first register all files, and forget missing ones without a backup'
	case log
		printf '%s\n' \
			'--all	include all projects' \
			'--json	print JSON' \
			'-n	show at most NUMBER; 0 means all (default 20)' \
			'-p	show what changed in files' \
			'--patch	show what changed in files' \
			'--session	show only executions in this SESSION'
	case restore
		printf '%s\n' \
			'--date	restore the backup of this day: YY-MM-DD or YYYY-MM-DD' \
			'--from	restore the version before EXECUTION, an id from nsrun log, or last for the newest that changed the file' \
			'--json	print JSON' \
			'--list	list the versions, and do nothing' \
			'-q	say nothing on success' \
			'--to	write to another file; - means standard output'
	case watch
		printf '%s\n' \
			'--engine	watch with auto|fanotify|inotify' \
			'--json	print each event as a line of JSON' \
			'-q	do not print when watching starts'
	case home
		printf '%s\n' \
			'--all	with show: list the layers of all projects; with reset: remove them' \
			'--allow-exec	with keep: also keep files that run later, and links that lead elsewhere' \
			'--files	with show: also list the files in caches' \
			'--json	print JSON' \
			'--project	the project\'s root directory (default: the git work tree, else the current directory)' \
			'--replace	with keep: replace files of the home directory'
	case gc
		printf '%s\n' \
			'--dry-run	print what would be removed, and remove nothing' \
			'--keep-committed	do not remove sessions whose commit can be undone' \
			'--kept	also remove kept sessions; their changes are lost' \
			'--older	remove sessions that ended, or with --kept were last used, this duration ago: 30d, 12h, 0' \
			'--playground	empty all playgrounds' \
			'-q	say nothing on success' \
			'--yes	with --playground, do not ask'
	case doctor
		printf '%s\n' \
			'--fix	change this host, after a question for each step' \
			'--json	print JSON' \
			'--print	with --fix: only show what would be done' \
			'--sessions	check only the sessions'
	case mcp
		printf '%s\n' \
			'--allow-net	allow connections that match RULE, without a question, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)' \
			'--allow-unix	allow connections to the Unix socket at path, or to a service: ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)' \
			'--allow-userns	let commands make user namespaces, as programs with a sandbox of their own do; not for root' \
			'--ask-timeout	wait this duration for the user\'s answer to a question; no answer is a no (default 5m)' \
			'--backend	make the sandbox with auto|native|landlock: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)' \
			'--block	hide a path, even if it is created while a command runs; !path is an exception' \
			'--block-existing	run commands even if --block can only hide what exists when they start' \
			'--clear-env	pass only PATH and HOME from the environment' \
			'--commit	commit a command\'s changes when it ends, whatever its exit status (the default); nsrun undo takes them back' \
			'--credential	add a secret to requests to a host, without showing it to commands: HOST=SECRET, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; commands send their requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)' \
			'--device	let commands use a device of this host: nvidia|dri|kvm|PATH (repeatable)' \
			'--discard	discard a command\'s changes' \
			'--env	set K=V, or pass K through (repeatable)' \
			'--home	what happens to writes below the home directory, layer|none: they go to a layer that the project\'s next commands see, or are refused (default: layer)' \
			'--keep	keep the changes of all commands in one session, until nsrun commit or nsrun discard' \
			'--max-output	keep at most SIZE of standard output, and of standard error, such as 64K or 1M (default 64K)' \
			'--net-by	enforce rules with kernel|broker (default: the kernel, if permitted)' \
			'--own-ids	for root: give commands ids of their own, and the rights of root to what they may write' \
			'--preset	use a preset, default|build: with build, commands write to the caches of build tools' \
			'--project	project root directory (repeatable; commands begin in the first; default: the git work tree, else the current directory)' \
			'--protect	hold back changes to a path, in the project, until the user commits it by name (repeatable, takes patterns)' \
			'--publish	make a command\'s server on TCP port reachable at 127.0.0.1 of this host (repeatable)' \
			'--ro	make a path read-only' \
			'--rw	make a path writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)' \
			'--sandbox	the sandbox is required|preferred|disabled: preferred runs commands without a sandbox if this host allows none, disabled always does (default: required)' \
			'--text-only	return results as text only, for clients that show models the structured half if there is one' \
			'--timeout	end commands after this duration (default: when the client cancels them)'
	case man
		printf '%s\n' \
			'--markdown	print what docs/cli.md has'
	end
end

# What follows the flags of a verb; + is for any number. Fails for other words.
function __nsrun_rest -a verb
	switch $verb
	case run
		printf '%s\n' command none+
	case policy
		printf '%s\n' command none+
	case why
		printf '%s\n' path+
	case learn
		printf '%s\n' command none+
	case config
		printf '%s\n' choice:check,show,schema,init command none+
	case trust
		printf '%s\n' path
	case ls
	case show
		printf '%s\n' session
	case diff
		printf '%s\n' session path+
	case review
		printf '%s\n' session
	case commit
		printf '%s\n' session path+
	case discard
		printf '%s\n' session+
	case drop
		printf '%s\n' session path+
	case undo
		printf '%s\n' session
	case files
		printf '%s\n' path+
	case log
		printf '%s\n' none path
	case restore
		printf '%s\n' path
	case watch
		printf '%s\n' dir+
	case home
		printf '%s\n' choice:show,reset,keep path+
	case gc
		printf '%s\n' session+
	case doctor
	case mcp
	case completion
		printf '%s\n' choice:bash,zsh,fish
	case man
	case version
	case help
		printf '%s\n' verb
	case '*'
		return 1
	end
end

# The words of a kind.
function __nsrun_words -a kind nsrun cur
	switch $kind
	case path
		__fish_complete_path $cur
	case dir
		__fish_complete_directories $cur ''
	case cap
		if string match -qr '^[a-z]' -- $cur
			__nsrun_caps | string lower
		else
			__nsrun_caps
		end
	case netns
		for file in /run/netns/*
			printf '%s\tnetwork namespace\n' (string replace -r '.*/' '' -- $file)
		end
		__fish_complete_path $cur
	case session
		printf 'last\tthe session that was made last\n'
		command $nsrun ls --all 2>/dev/null | string replace -r ' +' '\t'
	case var
		set -xn
	case verb
		__nsrun_verbs
	case 'choice:*'
		string replace choice: '' $kind | string split ,
	end
end

# A command and its arguments, completed as without nsrun.
function __nsrun_command
	set -l line (string join ' ' -- (string escape -- $argv[1..-2]) $argv[-1])
	complete "--do-complete=$line"
end

function __nsrun_complete_verb
	set -l words $argv
	set -l verb $words[2]
	set -l cur $words[-1]
	set -l n (count $words)
	set -l i 3
	set -l dashes
	while test $i -lt $n
		switch $words[$i]
		case --
			set i (math $i + 1)
			set dashes done
			break
		case '-*=*'
			set i (math $i + 1)
		case '-?*'
			set -l kind (__nsrun_flag $verb (string replace -r '^--?' '' -- $words[$i]))
			if test -n "$kind"; and test (math $i + 1) -eq $n
				__nsrun_words $kind $words[1] $cur
				return
			end
			set i (math $i + 1 + (count $kind))
		case '*'
			break
		end
	end
	if test $i -eq $n -a -z "$dashes"; and string match -q -- '-*' $cur
		if string match -q -- '*=*' $cur
			set -l flag (string replace -r '=.*' '=' -- $cur)
			set -l kind (__nsrun_flag $verb (string replace -r '^--?' '' -- (string replace = '' -- $flag)))
			for word in (__nsrun_words "$kind" $words[1] (string replace -r '^[^=]*=' '' -- $cur))
				echo $flag$word
			end
			return
		end
		__nsrun_flags $verb | string match -- "*$cur*"\t"*"
		return
	end
	for kind in (__nsrun_rest $verb)
		if test $kind = command
			__nsrun_command $words[$i..-1]
			return
		else if test $i -eq $n; or string match -q '*+' $kind
			__nsrun_words (string replace + '' $kind) $words[1] $cur
			return
		end
		set i (math $i + 1)
	end
end

function __nsrun_complete -a service
	set -l words (commandline -opc) (commandline -ct)
	set -l cur $words[-1]
	set -l n (count $words)
	set -l i 2
	if test $service = nsrun
		if test $n -eq 2; and not string match -q -- '-*' $cur
			__nsrun_verbs
			return
		else if test $n -gt 2; and __nsrun_rest $words[2] >/dev/null
			__nsrun_complete_verb $words
			return
		end
	end
	while test $i -lt $n
		switch $words[$i]
		case --
			set i (math $i + 1)
			break
		case '-*'
			set -l kinds (__nsrun_kinds $words[$i])
			set -l k (math $n - $i)
			if test $k -le (count $kinds)
				__nsrun_words $kinds[$k] $words[1] $cur
				return
			end
			set i (math $i + 1 + (count $kinds))
		case '*'
			break
		end
	end
	if test $i -eq $n; and string match -q -- '-*' $cur; and test $words[(math $i - 1)] != --
		# Fish would be content with the letters of cur, and find them in the
		# descriptions too.
		begin
			__nsrun_options
			test $service = nsrun; and __nsrun_own
		end | string match -- "*$cur*"\t"*"
		return
	end
	__nsrun_command $words[$i..-1]
end

complete -c nsrun -f -k -a '(__nsrun_complete nsrun)'
if string match -q '*/bwrap.fish' -- (status filename); or begin
		command -q bwrap; and command -q nsrun
		and test (realpath (command -s bwrap)) = (realpath (command -s nsrun))
	end
	complete -c bwrap -f -k -a '(__nsrun_complete bwrap)'
end
