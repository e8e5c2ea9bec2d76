//go:build linux

package tools

// metadataTasks are about modes, owners, times and attributes.
var metadataTasks = []task{
	{name: "chmod", setup: "echo a >a; mkdir d", run: "chmod 600 a && chmod u+x,g+rw a && chmod 750 d && stat -c '%n %a' a d", then: "stat -c '%n %a' a d"},
	{name: "chmod +t", setup: "mkdir d", run: "chmod +t d && stat -c %a d", then: "stat -c %a d"},
	{name: "chmod g+s", setup: "mkdir d", run: "chmod g+s d && stat -c %a d && mkdir d/e && stat -c %a d/e", then: "stat -c %a d d/e"},
	{name: "umask", run: "umask 077; touch a; mkdir d; umask 002; touch b; stat -c '%n %a' *"},
	{name: "touch -d", setup: "touch a", run: "touch -d @1234567890 a b && touch -a -d @1 a && touch -r a c && stat -c '%n %Y' *", then: "stat -c '%n %Y' *"},
	{name: "times of symbolic links", setup: "ln -s x old", run: "ln -s y l && touch -h -d @1000 l old && stat -c '%n %Y' *", then: "stat -c '%n %Y' *"},
	{name: "times of directories", setup: "mkdir d", run: "touch d/f && touch -d @4000 d && mkdir e && touch -d @5000 e && stat -c '%n %Y' d e", then: "stat -c '%n %Y' d e"},
	{name: "nanoseconds", run: "touch -d '2020-01-02 03:04:05.123456789' f && stat -c %y f", then: "stat -c %y f"},
	{name: "user attributes", needs: "setfattr", setup: "echo a >a; setfattr -n user.old -v 1 a", run: "setfattr -n user.x -v hello a && setfattr -x user.old a && getfattr -d a", then: "getfattr -d a"},
	{name: "attributes of directories", needs: "setfattr", setup: "mkdir d", run: "setfattr -n user.d -v v d && cp -a d e && getfattr -d e", then: "getfattr -d d e"},
	{name: "own access control lists", needs: "setfacl", setup: "echo a >a; mkdir d", run: "setfacl -m u:$(id -u):r a && setfacl -m g::rx,o::- a && setfacl -d -m u::rwx,g::rx,o::- d && touch d/f && getfacl -c a d d/f", then: "getfacl -c a d d/f"},
	{name: "access control list for another user", needs: "setfacl", who: "root", setup: "echo a >a", run: "setfacl -m u:1:rw,g:2:r a && getfacl -cn a", then: "getfacl -cn a"},
	{name: "access control list for another user, as one", needs: "setfacl", who: "user", setup: "echo a >a", run: "setfacl -m u:1:rw a 2>/dev/null; echo $?", differs: "1\n"},
	{name: "chown to oneself", setup: "echo a >a; ln -s a l", run: "chown $(id -u):$(id -g) a && chgrp $(id -g) a && chown -h $(id -u) l && echo fine"},
	{name: "chown to others, as a user", who: "user", setup: "echo a >a", run: "chown 12345 a 2>/dev/null; echo $?; chgrp 12345 a 2>/dev/null; echo $?; python3 -c \"import os\ntry: os.chown('a',1,1)\nexcept OSError as e: print(e.errno)\"", needs: "python3"},
	{name: "set-user-id file", setup: "echo a >a", run: "chmod u+s a 2>/dev/null; echo $?; install -m 4755 a b 2>/dev/null; echo $?; stat -c %a a", differs: "1\n1\n644\n"},
	{name: "set-user-id file in an archive", needs: "fakeroot", setup: "mkdir d; echo a >d/a; chmod 4755 d/a; tar -cf t.tar d; chmod 755 d/a", run: "tar -xpf t.tar 2>/dev/null; echo $?; fakeroot tar -xpf t.tar; echo $?", differs: "2\n0\n"},
	{name: "set-group-id file", setup: "echo a >a", run: "chmod 2755 a && stat -c %a a", flags: "--allow-special", then: "stat -c %a a"},
	{name: "stat of everything", setup: "mkdir d; touch f; ln -s f l; mkfifo p", run: "stat -c '%n %F %a %h %s %u %g' f l p && stat -c '%n %F %a' d"},
	{name: "fakeroot", who: "user", needs: "fakeroot", run: "fakeroot sh -c 'touch f && chown 33:33 f && mknod dev c 1 3 && stat -c \"%n %u %g %F\" f dev && tar --format=ustar --mtime=@1 -cf t.tar f dev && rm dev' && tar -tvf t.tar"},
	{name: "dpkg-deb", needs: "dpkg-deb fakeroot", setup: "mkdir -p pkg/DEBIAN pkg/usr/bin; printf 'Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' >pkg/DEBIAN/control; echo '#!/bin/sh' >pkg/usr/bin/x; chmod 755 pkg/usr/bin/x", run: "fakeroot dpkg-deb -Znone --build pkg x.deb >/dev/null && dpkg-deb -c x.deb && dpkg-deb -f x.deb Package && dpkg-deb -x x.deb out && find out | sort"},
	{name: "dpkg-buildpackage", needs: "dpkg-buildpackage fakeroot dh", slow: true, loose: true, setup: "mkdir -p x/debian/source; cd x; printf 'Source: xyz\\nMaintainer: a <a@b>\\nBuild-Depends: debhelper-compat (= 13)\\n\\nPackage: xyz\\nArchitecture: all\\nDescription: x\\n y\\n' >debian/control; printf 'xyz (1) unstable; urgency=low\\n\\n  * x\\n\\n -- a <a@b>  Thu, 01 Jan 1970 00:00:00 +0000\\n' >debian/changelog; printf '#!/usr/bin/make -f\\n%%:\\n\\tdh $@\\n' >debian/rules; chmod 755 debian/rules; echo '3.0 (native)' >debian/source/format; echo 'f usr/share/x' >debian/install; echo f >f", run: "cd x && dpkg-buildpackage -us -uc -b -d >/dev/null 2>&1; echo $?; cd .. && dpkg-deb -c xyz_1_all.deb | awk '{print $1,$2,$6}'"},
	{name: "tar of others' files, as a user", who: "user", setup: "mkdir d; echo a >d/a; tar --owner=33 --group=33 -cf t.tar d; rm -r d", run: "tar -xpf t.tar && stat -c '%n %U' d/a >/dev/null && cat d/a"},
	{name: "setpriv", needs: "flock", run: "setpriv --no-new-privs true && setpriv -d >/dev/null && echo fine"},
	{name: "id and whoami", run: "id -u; id -g; whoami; getent passwd $(id -u) | cut -d: -f1"},
	{name: "read of an owner's closed file", who: "user", setup: "echo a >a", run: "chmod 0 a; cat a 2>/dev/null; echo $?; chmod 600 a; cat a"},
}
