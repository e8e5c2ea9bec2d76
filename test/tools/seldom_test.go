//go:build linux

package tools

// seldomTasks are tasks with programs that few projects use, and each of which does something unusual: images of
// file systems, servers, daemons, roots of their own.
var seldomTasks = []task{
	{name: "git filter-repo", needs: "git git-filter-repo", slow: true, loose: true, setup: "git init -q .; mkdir -p a/b; echo s >a/b/secret; echo k >a/b/keep; git add .; git commit -qm one; echo t >top; git add .; git commit -qm two", run: "f() { git filter-repo --quiet --force $* >/dev/null; }; f --invert-paths --path a/b/secret && f --path-rename a/b/:lib/ && git log --format='%s %T' && ls && f --to-subdirectory-filter sub && ls", then: "git fsck; git status --porcelain"},
	{name: "git fsmonitor--daemon", needs: "git", slow: true, loose: true, setup: "git init -q .; echo a >a; git add .; git commit -qm a", run: "git config core.fsmonitor true; git status --porcelain; git fsmonitor--daemon status | cut -c1-10; echo x >n; git status --porcelain; git fsmonitor--daemon stop; echo $?", then: "git config core.fsmonitor false; git status --porcelain"},
	{name: "git commits and tags, signed by an ssh key of the project", needs: "git ssh-keygen", slow: true, loose: true, setup: `git init -q .; ssh-keygen -q -t ed25519 -N '' -f key; echo "a@b $(cat key.pub)" >allowed; git config gpg.format ssh; git config user.signingkey ./key; git config gpg.ssh.allowedSignersFile ./allowed`, run: `git add allowed; git commit -qS -m s; git verify-commit HEAD 2>&1 | grep -o 'Good "git" signature for a@b'; git tag -s v1 -m t; git verify-tag v1 2>&1 | grep -o Good`, then: "git log -1 --format=%G?"},
	{name: "images of ext4 and FAT", needs: "mkfs.ext4 mkfs.vfat mcopy", slow: true, loose: true, setup: "mkdir -p d/e; echo a >d/e/a", run: "truncate -s 8M i; mkfs.ext4 -q -F i; debugfs -w -R 'write d/e/a h' i 2>/dev/null; debugfs -R 'cat h' i 2>/dev/null; e2fsck -fn i >/dev/null 2>&1; echo $?; tune2fs -L lab i >/dev/null; blkid -o value -s LABEL i; resize2fs i 16M 2>/dev/null; stat -c %s i; mkfs.ext4 -q -d d x 4M; debugfs -R 'ls -p e' x 2>/dev/null | grep -c /a/; mkfs.vfat -C f 1024 >/dev/null; mcopy -i f d/e/a ::/a; mmd -i f ::/s; mmove -i f ::/a ::/s/; mtype -i f ::/s/a"},
	{name: "an image with partitions", needs: "sfdisk", slow: true, loose: true, run: `truncate -s 16M i; printf 'label: gpt\nsize=4M, type=L\n' | sfdisk -q i 2>/dev/null; sfdisk -l i 2>/dev/null | grep -c '^i1'; sfdisk -d i | grep -c start`},
	{name: "an image of a disc", needs: "xorriso", slow: true, loose: true, setup: "mkdir d; echo a >d/a", run: "xorriso -as mkisofs -quiet -R -o i.iso d 2>/dev/null; xorriso -indev i.iso -find / 2>/dev/null; xorriso -osirrox on -indev i.iso -extract / o 2>/dev/null >/dev/null; cat o/a; chmod -R u+w o"},
	{name: "age", needs: "age", slow: true, run: `age-keygen -o k 2>/dev/null; p=$(grep public k | cut -d: -f2); echo secret | age -r $p >e; age -d -i k e; echo x | age -a -r $p | head -1; stat -c %a k; rm k e`},
	{name: "rclone: sync, check, a server, an encrypted remote", needs: "rclone curl", slow: true, loose: true, setup: "mkdir -p s/d; seq 100 >s/a; seq 200 >s/d/b; touch -d @1000 s/a", run: `export RCLONE_CONFIG=$PWD/rc.conf; touch rc.conf; rclone -q sync s t; stat -c %Y t/a; rclone check -q s t; echo $?; rm s/a; rclone -q sync s t; find t | sort; rclone -q serve http --addr 127.0.0.1:19101 t & i=0; until curl -fs http://127.0.0.1:19101/d/b >o; do i=$((i+1)); [ $i -lt 300 ] || break; sleep .1; done; tail -1 o; kill $!; wait; rclone -q move t u; find u -type f; rclone -q config create x crypt remote=$PWD/enc filename_encryption=off password=$(rclone obscure a) >/dev/null; rclone -q copy u x:; rclone ls x:; true`},
	{name: "proot", needs: "proot", who: "user", slow: true, setup: "mkdir r", run: "proot -b /usr -b /lib -b /lib64 -b /bin -b /etc -r r /bin/sh -c 'pwd; ls /; id -u' | sed s/^$(id -u)$/me/; proot -0 id -u; proot -w /usr pwd; proot -b $PWD:/mnt sh -c 'echo x >/mnt/made'; cat made"},
	{name: "screen", needs: "screen", who: "user", slow: true, run: `export SCREENDIR=$PWD/sd; mkdir -m 700 sd; screen -dmS a sh -c 'echo in >o; sleep 60'; i=0; until [ -s o ]; do i=$((i+1)); [ $i -lt 300 ] || break; sleep .1; done; cat o; screen -ls | grep -c '\.a'; screen -S a -X quit; i=0; while screen -ls | grep -q '\.a'; do i=$((i+1)); [ $i -lt 300 ] || break; sleep .1; done; rm -rf sd; ls`},
	{name: "lighttpd with CGI", needs: "lighttpd curl", slow: true, loose: true, setup: `mkdir w; printf '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"; echo cgi $QUERY_STRING\n' >w/a.cgi; chmod +x w/a.cgi`, run: `printf 'server.document-root="%s/w"\nserver.port=19102\nserver.bind="127.0.0.1"\nserver.modules=("mod_cgi","mod_accesslog")\ncgi.assign=(".cgi"=>"")\naccesslog.filename="%s/log"\n' $PWD $PWD >c; lighttpd -D -f c & i=0; until curl -fs 'http://127.0.0.1:19102/a.cgi?q=1'; do i=$((i+1)); [ $i -lt 300 ] || break; sleep .1; done; kill $!; wait; grep -c a.cgi log`},
	{name: "luarocks", needs: "luarocks", slow: true, loose: true, setup: `echo 'return {x=3}' >m.lua; printf 'package="m"\nversion="1-1"\nsource={url="git+file:///x"}\nbuild={type="builtin",modules={m="m.lua"}}\n' >m-1-1.rockspec`, run: `luarocks --tree=t make 2>&1 | tail -1; luarocks --tree=t list --porcelain | cut -f1-3; luarocks --tree=t pack m 2>&1 | tail -1 | wc -l; luarocks --tree=t remove m >/dev/null; ls`},
	{name: "names and inode numbers while a directory is listed and renamed", needs: "python3", slow: true, setup: "mkdir -p d/sub; for i in $(seq 100); do echo $i >d/f$i; done; ln -s f1 d/l", run: `python3 - <<'X'
import os
def numbers(): return all(os.lstat(e.path).st_ino==e.inode() for e in os.scandir('d'))
print(numbers(), {e.name:(e.is_dir(),e.is_symlink()) for e in os.scandir('d') if e.name in('sub','l')})
for e in os.scandir('d'):
    if e.is_file(follow_symlinks=False) and e.name[0]=='f': os.rename(e.path,'d/r'+e.name)
print(numbers(), len(os.listdir('d')), sorted(os.listdir('d'))[:3])
X
ls d | wc -l`, then: "ls d | wc -l; cat d/rf77"},
	{name: "times before 1970, after 2038, after 2262", setup: "mkdir d e; echo a >old; echo a >d/f; touch -d 1905-01-01 e; touch -d 2300-02-03T04:05:06.000000007 old", run: "touch -d 2400-01-01T00:00:00.123456789 old; touch -d 2310-01-01 d/f d; touch -d 1965-05-05 new; mkdir x; touch -d 2040-06-07 x; chmod 700 e; mv e e2; stat -c '%n %.9Y' old d d/f new x e2", then: "stat -c '%n %.9Y' old d d/f new x e2"},
	{name: "a directory that nobody may search is renamed", setup: "mkdir e; chmod 444 e", run: "mv -T e e2; stat -c '%a %n' *"},
	{name: "errors of calls on files, and their order", needs: "python3", slow: true, setup: "mkdir d full; echo a >f; echo x >full/x; ln -s none dang; ln -s l2 l1; ln -s l1 l2; mkfifo p", run: `python3 - <<'X'
import os,errno
def t(f,*a,**k):
    try: f(*a,**k); print(f.__name__,a,'done')
    except OSError as e: print(f.__name__,a,errno.errorcode[e.errno])
for top in '','new/':
    if top: os.makedirs('new/d'); os.mkdir('new/full'); open('new/f','w').write('a'); open('new/full/x','w').write('x'); os.symlink('none','new/dang'); os.symlink('l2','new/l1'); os.symlink('l1','new/l2'); os.mkfifo('new/p')
    p=lambda n: top+n
    for n in 'full','f','dang','p','none': t(os.rmdir,p(n))
    for n in 'full','none': t(os.unlink,p(n))
    t(os.open,p('full'),os.O_WRONLY); t(os.open,p('l1'),os.O_CREAT); t(os.open,p('dang'),os.O_CREAT|os.O_EXCL); t(os.open,p('dang'),os.O_NOFOLLOW); t(os.open,p('f/'),0); t(os.stat,p('f/x')); t(os.open,p('p'),os.O_WRONLY|os.O_NONBLOCK)
    for n in 'full','dang','f': t(os.mkdir,p(n)); t(os.symlink,'x',p(n))
    t(os.link,p('full'),p('full2')); t(os.link,p('f'),p('d'))
    for a,b in ('f','full'),('d','f'),('full','full/y'),('d','full'),('full/x','full'),('none','f'),('f','none/x'),('f','f/x'),('full','d/none/x'): t(os.rename,p(a),p(b))
    t(os.mkdir,p('n'*256)); t(os.stat,'./'*3000); t(os.truncate,p('full'),0); t(os.truncate,p('f'),-1); t(os.truncate,p('f'),1<<62); t(os.readlink,p('f')); t(os.chdir,p('f'))
    t(os.getxattr,p('f'),'user.none'); t(os.setxattr,p('dang'),'user.a',b'b',follow_symlinks=False); t(os.setxattr,p('p'),'user.a',b'b'); t(os.setxattr,p('f'),'user.b',b'b'*70000); t(os.setxattr,p('f'),'user.'+'b'*251,b'b'); t(os.removexattr,p('f'),'user.none')
os.unlink('new/p')
X`},
	{name: "sockets of a directory: datagrams, seqpackets, renamed and linked ones", needs: "python3", slow: true, loose: true, run: `python3 - <<'X'
import os,socket
def stream(p):
    s=socket.socket(1,1); s.bind(p); s.listen(); c=socket.socket(1,1); c.connect(p); a,_=s.accept(); c.send(b'hi'); r=a.recv(9); os.unlink(p); return r,os.path.exists(p)
long='l'*100; os.mkdir(long); d=os.open(long,os.O_RDONLY); print(stream('/proc/self/fd/%d/q'%d)); os.chdir(long); print(stream('q')); os.chdir('..'); os.rmdir(long)
a=socket.socket(1,2); a.bind('d1'); b=socket.socket(1,2); b.bind('d2'); b.sendto(b'yo','d1'); m,frm=a.recvfrom(9); a.sendto(b'back',frm); print(m,frm,b.recv(9))
for f in lambda: socket.socket(1,1).bind('d1'),lambda: socket.socket(1,1).connect('d1'),lambda: socket.socket(1,1).connect('none'):
    try: f()
    except OSError as e: print(e.strerror)
a.close()
try: socket.socket(1,2).connect('d1')
except OSError as e: print(e.strerror)
q=socket.socket(1,5); q.bind('q1'); q.listen(); os.rename('q1','q2'); os.link('q2','q3'); c=socket.socket(1,5); c.connect('q3'); s,_=q.accept(); c.send(b'one'); c.send(b'two'); print(s.recv(99),s.recv(99))
for n in 'd1','d2','q2','q3': os.unlink(n)
X`},
	{name: "ostree", needs: "ostree", slow: true, loose: true, setup: "mkdir t; for i in 1 2 3; do echo $i >t/$i; done; ostree --repo=r init --mode=bare-user; ostree --repo=r commit -b m t >/dev/null", run: "echo 4 >t/4; ostree --repo=r commit -b m t >/dev/null; ostree --repo=r log m | grep -c ^commit; ostree --repo=r checkout -U -H m co; ls co; stat -c %h co/1; ostree --repo=r fsck 2>&1 | tail -1; ostree --repo=r2 init --mode=archive; ostree --repo=r2 pull-local r >/dev/null; ostree --repo=r2 refs", then: "ostree --repo=r fsck 2>&1 | tail -1; stat -c %h co/1"},
	{name: "logrotate", needs: "logrotate", slow: true, loose: true, setup: `for i in 1 2; do seq 5000 >$i.log; done; printf '"%s/*.log" {\nrotate 2\nsize 1\ncompress\ncreate 0640\n}\n' $PWD >c; chmod 644 c`, run: `for i in 1 2 3; do logrotate -s st c; echo $?; seq 99 >>1.log; done; ls; stat -c %a 1.log; printf '%s/1.log {\ncopytruncate\nrotate 1\n}\n' $PWD >c2; logrotate -f -s st2 c2; stat -c %s 1.log`},
	{name: "notmuch", needs: "notmuch", slow: true, loose: true, setup: `mkdir -p m/new m/cur m/tmp; for i in 1 2 3; do printf 'From: a@b\nSubject: s%s\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nMessage-ID: <%s@x>\n\nbody\n' $i $i >m/new/$i; done; printf '[database]\npath=%s/m\n[user]\nname=a\nprimary_email=a@b\n[maildir]\nsynchronize_flags=true\n' $PWD >c`, run: `export NOTMUCH_CONFIG=$PWD/c; notmuch new 2>&1 | grep -c Added; notmuch tag -unread -- subject:s1; ls m/cur; mv m/new/3 m/cur/3:2,S; notmuch new 2>&1 | tail -1; notmuch count '*'`, then: "NOTMUCH_CONFIG=$PWD/c notmuch count '*'"},
}
