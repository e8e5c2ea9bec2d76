//go:build linux

package tools

// trees makes files of several owners and groups, with modes, times, links and a FIFO.
const trees = "mkdir -p t/a/b t/c; echo 1 >t/a/f; echo 2 >t/a/b/g; ln -s f t/a/l; mkfifo t/c/p; chown -R 1000:100 t/a; chown -h 33:34 t/a/l; chown 0:50 t/c; chmod 2775 t/c; chmod 1777 t/a/b; chmod 640 t/a/f; touch -h -d @1000 t/a/l; touch -d @1234567890.5 t/a/f t/a/b/g\n"

// as runs a command as another user than root.
const as = "as() { u=$1; shift; setpriv --reuid $u --regid $u --clear-groups \"$@\"; }\n"

// untilDone makes a function waits that waits until a command succeeds.
const untilDone = "waits() { i=0; until \"$@\" >/dev/null 2>&1; do i=$((i+1)); [ $i -lt 300 ] || { echo never; break; }; sleep 0.1; done; }\n"

// busybox makes a root with a shell that needs nothing else.
const busybox = "mkdir -p r/bin; cp $(readlink -f $(command -v busybox)) r/bin/busybox; for a in sh ls cat mv ln id echo mkdir touch chown tail cut; do ln -s busybox r/bin/$a; done\n"

const listed = "find . ! -path './.git/*' -printf '%p %m %U:%G %y %l\\n' | sort"

// ownerTasks are what root does with files of others, and as others.
var ownerTasks = ofSession([]task{
	{name: "tar with owners, modes and times", setup: trees, flags: "--allow-special", run: "tar cf t.tar t; rm -r t; tar xpf t.tar; mkdir o n; tar xf t.tar -C o --no-same-owner; tar xpf t.tar -C n --numeric-owner; rm t.tar; " + listed, then: "find . -type f -printf '%p %T@\\n' | sort"},
	{name: "tar with attributes and access control lists of owners", needs: "setfacl setfattr", setup: trees + "rm t/c/p; setfattr -n user.x -v 1 t/a/f; setfacl -R -m u:1234:rwx -m d:g:55:rx t/a", run: "tar --xattrs --acls -cf t.tar t; rm -r t; tar --xattrs --acls -xpf t.tar; rm t.tar; find t | sort | xargs getfacl -pn", then: "find t | sort | xargs getfacl -np; getfattr -d t/a/f"},
	{name: "cpio with owners", needs: "cpio", setup: trees, flags: "--allow-special", run: "find t -depth | cpio -pdm --quiet o; find t | cpio -o -H newc --quiet >c; mkdir x; cd x; cpio -idm --quiet <../c; rm ../c; cd ..; " + listed},
	{name: "rsync with owners", needs: "rsync setfacl", setup: trees + "setfacl -m u:77:r t/a/f", flags: "--allow-special", run: "rsync -aHAX --numeric-ids t/ o/; rsync -aHAX -n -i t/ o/; echo n >t/a/new; rm t/a/b/g; rsync -aHAX --delete --inplace t/ o/; rsync -a --chown=7:8 t/ q/; rsync -a --link-dest=../o t/ r/; " + listed},
	{name: "cp with owners", setup: trees, flags: "--allow-special", run: "cp -a t o; cp -r --no-preserve=mode,ownership t p; cp --preserve=ownership t/a/f q; cp --attributes-only --preserve=mode,ownership,timestamps t/a/b/g w; cp -Ru t o; cp -l t/a/f v; cp -al t z; stat -c '%n %h' t/a/f v z/a/f; " + listed},
	{name: "install with owners", setup: "echo a >a", flags: "--allow-special", run: "install -d -o 1000 -g 1000 -m 2750 d/e; install -o daemon -g mail -m 2755 a b; install -o www-data -pm 600 a c; install -C -o 5 a b; install -d -g 50 -m 2775 s; mkdir s/t; echo x >s/f; cp -a s u; chmod g-s u/t; " + listed},
	{name: "chown in all its forms", setup: trees, flags: "--allow-special", run: "chown -R --from=1000 0:0 t; chown -R www-data:mail t/a; chown --reference=t/c t/a/f; chown -h 9 t/a/l; chown -RL 12 t/a/b; chgrp -hR users t/c; chown 134000000:134000000 t/a/f; find t -uid 134000000; find . -user www-data; find t -nouser; " + listed},
	{name: "dpkg-deb with owners", needs: "dpkg-deb", setup: "mkdir -p pkg/DEBIAN pkg/usr/bin pkg/var/mail; printf 'Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' >pkg/DEBIAN/control; echo x >pkg/usr/bin/x; chown 33:33 pkg/usr/bin/x; chown 0:8 pkg/var/mail; chmod 2775 pkg/var/mail", run: "dpkg-deb -Znone --build pkg x.deb >/dev/null; dpkg-deb -c x.deb; dpkg-deb -x x.deb o; dpkg-deb -R x.deb r; " + listed},
	{name: "make install with owners", needs: "make", flags: "--allow-special", setup: "printf 'install:\\n\\tinstall -d -g staff -m 2775 $(DESTDIR)/s\\n\\tinstall -o games -g games -m 664 f $(DESTDIR)/s/f\\n\\tinstall -g games -m 2755 f $(DESTDIR)/g\\n\\tchown -R www-data: $(DESTDIR)/w\\n' >Makefile; echo f >f; mkdir -p o/w; echo w >o/w/w", run: "make -s install DESTDIR=$PWD/o; make -s install DESTDIR=$PWD/o; " + listed},
	{name: "users of another root", needs: "useradd", loose: true, setup: "mkdir -p r/etc r/home r/var/mail; echo root:x:0:0::/root:/bin/sh >r/etc/passwd; echo root:x:0: >r/etc/group; echo 'root:*:1::::::' >r/etc/shadow; echo 'root:*::' >r/etc/gshadow; chmod 640 r/etc/shadow; chgrp 42 r/etc/shadow; cp /etc/login.defs r/etc", run: "P=$PWD/r; groupadd -P $P -g 1700 grp; useradd -P $P -u 1700 -g 1700 -M -d /home/x x; usermod -P $P -c hello x; cat r/etc/passwd r/etc/group; userdel -P $P x; stat -c '%n %a %u %g' r/etc/*"},
	{name: "directories of others, renamed and exchanged", needs: "python3", setup: "mkdir -p a/s b/s e; echo 1 >a/s/x; echo 2 >b/s/y; chown -R 1000:100 a; chown -R 33:33 b; chmod 700 a b/s; chown 5 e", run: python(`
def t(*a):
    try: os.rename(*a)
    except OSError as e: print(*a, e.errno)
t("a", "n"); print(l.renameat2(-100, b"n", -100, b"b", 2)); t("b/s", "e"); t("e", "n/e"); os.mkdir("k"); os.chown("k", 9, 9); t("n", "k"); t("k", "k/z"); t("b", "k")`) + listed, then: listed},
	{name: "directories of one's own, renamed by their owner", needs: "perl", setup: "mkdir -p m/a/lib; echo 1 >m/a/lib/i; chown -R 1000:1000 .", run: as + `as 1000 perl -e 'sub r { rename $_[0], $_[1] or print "@_: $!\n" } r("m/a", "m/.a"); mkdir "m/a"; mkdir "m/a/lib"; r("m/a", "m/.b"); r("m/.a", "m/a"); r("m/a/lib", "m/lib"); r("m", "n")'; cat n/lib/i; ` + listed, then: listed},
	{name: "links to files of others", needs: "python3", setup: "mkdir d; echo a >d/a; echo b >b; echo c >c; chmod 600 c; chown -R 1000:100 .", run: python(`
os.link("d/a", "d/l"); print(os.stat("d/l").st_nlink, os.stat("d/l").st_ino == os.stat("d/a").st_ino); os.link("b", "d/b"); os.link("c", "d/c"); os.unlink("b"); print(open("d/b").read()); os.replace("d/b", "b")`) + "cp -al d e; tar cf t.tar d e; echo $?; rm t.tar; stat -c '%n %h %u' d/* e/*", then: "stat -c '%n %h %u' d/* e/*"},
	{name: "files of twenty owners", setup: "for i in $(seq 20); do mkdir -p t/$i/x; echo $i >t/$i/x/f; chown -R $((i*100)):$i t/$i; chmod 700 t/$i/x; done", run: "find t -type f -exec cat {} + | sort -n | tail -n 1; find t -name f -uid +1000 -delete; rm -r t/1 t/2; mv t u; chown -R --from=300 7 u; cp -a u v; mv v/9 v/nine; chmod -R a+rX u; " + listed, then: listed},
	{name: "sticky directories and groups", setup: "mkdir -m 1777 d; mkdir -m 2770 s; chgrp 33 s; echo a >d/a; chown 1000 d/a; chmod 755 .", run: as + "as 33 rm -f d/a 2>/dev/null; as 33 touch d/b; as 33 sh -c 'umask 007; echo x >s/f; mkdir s/g'; as 33 chmod 777 d 2>/dev/null; echo $?; as 33 mv s/g d/g; as 34 cat s/f 2>/dev/null; echo $?; " + listed, then: listed},
	{name: "access control lists for others, by others", needs: "setfacl", setup: "mkdir d; echo a >d/a; setfacl -m u:33:rw,g:8:r d/a; setfacl -m d:u:33:rwx,d:g::rx d; chmod 755 .", run: as + "setfacl -m u:1000:rwx d; as 1000 touch d/b; as 33 sh -c 'cat d/a; echo x >>d/a'; setfacl -k d; setfacl -x u:33 d/a; cp -a d e; mv d f; getfacl -pnR f e", then: "getfacl -pnR ."},
	{name: "what others may not, and cannot get back", needs: "python3", setup: "chmod 755 .", run: python(`
p = os.fork()
if p == 0:
    os.initgroups("www-data", 33); os.setresgid(33, 33, 33); os.setresuid(33, 33, 33); print(os.getgroups())
    for f, a in ((os.setuid, (0,)), (os.setgroups, ([1],)), (os.chown, (".", 33, 33)), (os.chmod, (".", 0o777))):
        try: f(*a); print(f.__name__)
        except OSError as e: print(f.__name__, e.errno)
    os._exit(0)
os.wait(); os.setegid(33); os.seteuid(33)
try: open("f", "w")
except OSError as e: print(e.errno)
os.seteuid(0); open("f", "w"); print(os.stat("f").st_gid); os.setgroups([5, 70000]); print(os.getgroups())`)},
	{name: "FIFOs and sockets of others", needs: "python3", setup: "mkdir -m 777 d; chmod 755 .", run: as + "as 33 mkfifo d/p; chmod 622 d/p; (echo hi >d/p) & as 33 cat d/p; wait; rm d/p; " + python(`
import socket, struct
def client(name):
    if os.fork() == 0:
        os.setgid(33); os.setuid(33)
        try: socket.socket(1).connect(name)
        except OSError as e: print(e.errno)
        os._exit(0)
s = socket.socket(1); s.bind("d/s"); os.chmod("d/s", 0o600); s.listen(); client("d/s"); os.wait(); os.chown("d/s", 33, 33); client("d/s")
print(struct.unpack("3i", s.accept()[0].getsockopt(1, 17, 12))[1:]); os.wait(); os.unlink("d/s")`)},
	{name: "git over files of others", needs: "git", loose: true, setup: gitSetup + "mkdir -p e/f; echo e >e/f/e; git add .; git commit -qm e; chown -R 1000:1000 .", run: "git status 2>&1 | head -n 1 | cut -c1-24; git config --global safe.directory '*'; git mv e x; git commit -qm m; git checkout -q HEAD~; git checkout -q main; echo n >n; git add n; git stash -q; git stash pop -q; git gc -q; " + as + "as 1000 git -c safe.directory='*' status --porcelain; git config --global --unset safe.directory; " + listed, then: "git config --global safe.directory '*'; git fsck; git status --porcelain; git config --global --unset safe.directory"},
	{name: "a git repository that a group shares", needs: "git", loose: true, setup: "chmod 755 .; git init -q --bare --shared=group b; chgrp -R 100 b; chmod -R g+ws b", run: "git clone -q b c 2>/dev/null; cd c; echo a >a; git add a; git commit -qm a; git -c safe.directory='*' push -q origin HEAD 2>/dev/null; cd ..; stat -c '%a %g' b/objects b/refs/heads; find b -type d ! -perm -2000; setpriv --reuid 1000 --regid 1000 --groups 100 git -c safe.directory='*' -C b update-ref refs/heads/z $(git -C c rev-parse HEAD) 2>&1 | cut -c1-9; find b/refs -type f -printf '%p %u %g\\n'"},
	{name: "postgres of another user", slow: true, needs: "pg_ctlcluster psql", loose: true, setup: "mkdir db s; chown 1000:1000 db s; chmod 755 .", run: pgPath + as + "as 1000 initdb -D db -A trust -U me >/dev/null 2>&1; as 1000 pg_ctl -D db -w -l db/log -o \"-k $PWD/s -h '' -p 28941\" start >/dev/null; psql -h $PWD/s -p 28941 -U me postgres -qAtc 'create table t(x int); insert into t values(7); select * from t'; as 1000 pg_ctl -D db -w -m fast stop >/dev/null; echo $?; stat -c '%u %a' db db/PG_VERSION", then: pgPath + as + "as 1000 pg_controldata db | grep state"},
	{name: "nginx with another user", slow: true, needs: "nginx curl", loose: true, setup: `mkdir html t; echo page >html/index.html; echo s >html/closed; chmod 600 html/closed; chmod 755 .; printf 'pid %s/pid; user www-data; events {}\nhttp { access_log off; client_body_temp_path %s/t/1; proxy_temp_path %s/t/2; fastcgi_temp_path %s/t/3; uwsgi_temp_path %s/t/4; scgi_temp_path %s/t/5; server { listen 127.0.0.1:28942; root %s/html; } }' $PWD $PWD $PWD $PWD $PWD $PWD $PWD >conf`, run: untilDone + "nginx -p $PWD -c $PWD/conf -e $PWD/err; curl -s http://127.0.0.1:28942/; curl -so /dev/null -w '%{http_code}\\n' http://127.0.0.1:28942/closed; nginx -p $PWD -c $PWD/conf -e $PWD/err -s quit; waits test ! -e pid; stat -c '%n %U %a' t/* err"},
	{name: "redis of another user", slow: true, needs: "redis-server", loose: true, setup: "mkdir d; chown 1000:1000 d; chmod 755 .", run: as + untilDone + "cd d; as 1000 redis-server --port 0 --unixsocket $PWD/s --dir $PWD --save '' --daemonize yes --logfile $PWD/log >/dev/null; waits redis-cli -s s ping; redis-cli -s s set a b; redis-cli -s s save; redis-cli -s s shutdown nosave; waits test ! -e s; stat -c '%n %u %a' *"},
	{name: "sqlite of another user", needs: "sqlite3", loose: true, setup: as + "mkdir d; chown 1000:1000 d; chmod 755 .; cd d; as 1000 sqlite3 x.db 'pragma journal_mode=wal; create table t(a); insert into t values(1)' >/dev/null", run: as + "cd d; sqlite3 x.db 'insert into t values(2); select count(*) from t'; as 1000 sqlite3 x.db 'insert into t values(4); vacuum; pragma integrity_check'; as 1001 sqlite3 x.db 'insert into t values(5)' 2>/dev/null; echo $?; stat -c '%n %u' *", then: "sqlite3 d/x.db 'select count(*) from t'"},
	{name: "logrotate with another user", slow: true, needs: "logrotate", loose: true, setup: `mkdir l; echo a >l/x.log; chown 33:4 l l/x.log; chmod 2755 l; printf '%s/l/*.log {\nrotate 2\nsu www-data adm\ncreate 640 www-data adm\n}\n' $PWD >c; chmod 644 c; chmod 755 .`, run: "logrotate -f -s $PWD/st c; echo $?; echo b >l/x.log; logrotate -f -s $PWD/st c; stat -c '%n %a %U %G' l l/*"},
	{name: "strace of a program that gives up root", needs: "strace", setup: "chmod 755 .", run: "strace -f -qq -e trace=setresuid,setuid -o log setpriv --reuid 33 --regid 33 --clear-groups id -u; echo $?; grep -c 33 log; rm log"},
	{name: "strace and gdb of others' processes", slow: true, needs: "strace gdb lsof", run: untilDone + "other() { setpriv --reuid 33 --regid 33 --clear-groups sleep 300 & p=$!; waits grep -q sleep /proc/$p/comm; }; other; strace -p $p -o log & s=$!; waits grep -q '^TracerPid:.[1-9]' /proc/$p/status; kill $p; wait $s $p; grep -c SIGTERM log; rm log; other; readlink /proc/$p/exe; gdb -q -nx -batch -p $p -ex detach 2>&1 | grep -c 'Inferior 1'; lsof -p $p 2>/dev/null | grep -c cwd; kill $p"},
	{name: "start-stop-daemon by executable and user", needs: "start-stop-daemon", run: untilDone + "start-stop-daemon --start --quiet --background --make-pidfile --pidfile $PWD/p --chuid www-data --exec /bin/sleep -- 300; waits start-stop-daemon --status --pidfile $PWD/p --exec /bin/sleep --user www-data; start-stop-daemon --start --quiet --pidfile $PWD/p --exec /bin/sleep -- 300; echo $?; start-stop-daemon --stop --quiet --retry 9 --pidfile $PWD/p --exec /bin/sleep --user www-data; echo $?; rm p"},
	{name: "su and sudo", needs: "sudo", setup: "chmod 755 .", run: "sudo -n id -u; sudo -n -u www-data id -un; sudo -n -u '#1234' -g '#77' id -g; su -s /bin/sh www-data -c 'id -un'; su root -c 'touch x; chown 33 x'; sudo -n -u www-data sh -c 'echo y >>x'; stat -c %u x; runuser -u nobody -- id -u; sudo -n -E sh -c 'echo $TERM'; su -s /bin/sh nobody -c 'sudo -n true' 2>/dev/null; echo $?"},
	{name: "a changed root", needs: "busybox", setup: busybox + "mkdir -p r/old/d r/tmp r/theirs/d; echo f >r/old/d/f; echo t >r/theirs/d/f; chown -R 33:33 r/theirs; chmod 700 r/theirs", run: "chroot r /bin/sh -c 'pwd; ls /; mv /old/d /old/e; mkdir /n; mv /old /n/old; cat /n/old/e/f; mv /theirs/d /e; ls -ln /e | tail -n 1 | cut -c1-10; ln /e/f /l; id -u'; chroot --userspec=33:34 r /bin/sh -c 'id -u; mv /n/old /tmp/x 2>/dev/null; echo $?; touch /theirs/n'; chroot r /bin/busybox chroot . /bin/echo again; " + listed, then: listed},
	{name: "dpkg in a root of one's own, with scripts", needs: "busybox dpkg-deb", loose: true, setup: busybox + `mkdir -p pkg/DEBIAN pkg/usr/share/x r/var/lib/dpkg/info r/var/lib/dpkg/updates; : >r/var/lib/dpkg/status; printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' >pkg/DEBIAN/control; printf '#!/bin/sh\necho "$@" >/out; chown 33:33 /usr/share/x/c\n' >pkg/DEBIAN/postinst; chmod 755 pkg/DEBIAN/postinst; echo c >pkg/usr/share/x/c; dpkg-deb -Znone -b pkg x.deb >/dev/null`, run: "dpkg --root=$PWD/r --log=$PWD/log -i x.deb >/dev/null 2>&1; echo $?; cat r/out; stat -c %u r/usr/share/x/c; dpkg --root=$PWD/r --log=$PWD/log -P x >/dev/null 2>&1; echo $?; ls r/usr/share 2>/dev/null; rm log"},
	{name: "users of a changed root", needs: "useradd", loose: true, setup: "mkdir -p r/etc r/home r/var/mail; cp /etc/login.defs r/etc; echo root:x:0:0::/root:/bin/sh >r/etc/passwd; echo root:x:0: >r/etc/group; echo 'root:*:1::::::' >r/etc/shadow", run: "useradd -R $PWD/r -u 1700 -m x; echo $?; cat r/etc/passwd; cut -d: -f1,2 r/etc/shadow; stat -c %u r/home/x; passwd -R $PWD/r -S root 2>/dev/null | cut -c1-6; userdel -R $PWD/r x; ls r/home"},
	{name: "sshd and a login", slow: true, needs: "sshd ssh ssh-keygen", loose: true, setup: "chmod 755 .; ssh-keygen -qt ed25519 -N '' -f hk; ssh-keygen -qt ed25519 -N '' -f k; cp k.pub ak; chmod 600 ak", run: untilDone + "test -d /run/sshd || mkdir /run/sshd; $(command -v sshd) -D -e -p 28951 -h $PWD/hk -o ListenAddress=127.0.0.1 -o PidFile=$PWD/pid -o AuthorizedKeysFile=$PWD/ak -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes 2>log & waits test -s pid; ssh -F none -i k -p 28951 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1 'echo in $((1+1)); id -u'; kill $(cat pid); wait; rm log"},
	{name: "modes of root's files", setup: "mkdir d; echo a >d/f; chmod 400 d/f; chmod 555 d", run: "echo x >>d/f; echo $?; cat d/f; rm -r d; echo $?"},
})

// ofSession are tasks that take rights which root's command has only in a session (SECURITY.md).
func ofSession(list []task) []task {
	for i := range list {
		list[i].who, list[i].session = "root", true
	}
	return list
}
