# inside.sh CLIENT WORK PLACE runs a client's job; run.sh calls it in new namespaces.
# In PLACE is what is used as bwrap.
set -euo pipefail
client=$1 work=$2 place=$3
. "$work/test/lib.sh"
. "$work/test/clients/client-$client.sh"

# Programs have /usr/bin/bwrap compiled in, or look at PATH.
mount --bind "$place/bwrap" /usr/bin/bwrap
ip link set lo up
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
if declare -F prepare >/dev/null; then prepare; fi

home=/tmp/home run=/run/user/$nobody
mkdir /run/user
install -d -m 700 -o $nobody -g $nobody $home $run
cd $home
exec env -i HOME=$home XDG_RUNTIME_DIR=$run TMPDIR=/tmp USER=nobody LOGNAME=nobody SHELL=/bin/sh LC_ALL=C.UTF-8 \
	NSRUN_TEST_CACHE="${NSRUN_TEST_CACHE:-}" PATH="$place:/usr/sbin:/usr/bin:/sbin:/bin" \
	setpriv --reuid $nobody --regid $nobody --clear-groups --inh-caps=-all \
	bash -euo pipefail -c '. "$1/test/lib.sh"; . "$1/test/clients/client-$2.sh"; job' bash "$work" "$client"
