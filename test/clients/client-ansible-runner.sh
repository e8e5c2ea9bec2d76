what='runs a playbook with process isolation'
calls=ansible-playbook

get() {
	packages python3-ansible-runner
	version=$(version_of python3-ansible-runner)
}

# It shows /usr, but neither /lib nor /sbin, as it is right where Red Hat has its loader.
prepare() {
	mkdir /tmp/lib64
	cp -L /usr/lib64/* /tmp/lib64/
	mount --bind /tmp/lib64 /usr/lib64
}

job() {
	mkdir -p private/project private/inventory private/env private/bin private/out secrets
	# No compiler, which Python asks for the C library where there is no /sbin/ldconfig.
	printf 'PATH: %s\nANSIBLE_REMOTE_TEMP: /tmp/ansible\n' "$HOME/private/bin" >private/env/envvars
	dpkg -L coreutils | grep '/bin/' | xargs ln -s -t private/bin /usr/bin/ansible-playbook
	echo 'localhost ansible_connection=local ansible_python_interpreter=/usr/bin/python3' >private/inventory/hosts
	echo secret >secrets/key
	cat >private/project/play.yml <<-'END'
		- hosts: all
		  gather_facts: false
		  tasks:
		    - command: readlink /proc/self/ns/pid
		      register: namespace
		    - command: ls -A "{{ hidden }}"
		      register: listed
		    - copy: {content: "{{ namespace.stdout }} {{ listed.stdout_lines | length }}\n", dest: "{{ out }}/result"}
	END
	ansible-runner run private --playbook play.yml --process-isolation --process-isolation-executable /usr/bin/bwrap \
		--process-isolation-hide-paths "$HOME/secrets" \
		--cmdline "-e out=$HOME/private/out -e hidden=$HOME/secrets"
	read -r namespace hidden <private/out/result
	[ "$namespace" != "$(readlink /proc/self/ns/pid)" ] || wrong "it ran in the PID namespace of the caller"
	[ "$hidden" = 0 ] || wrong "it saw what is hidden"
}
