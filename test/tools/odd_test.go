//go:build linux

package tools

// oddTasks are what fewer people do, and what programs do with files that are in the project already.
var oddTasks = []task{
	{name: "git rebase -i: edit, split, an exec that fails", needs: "git", slow: true, setup: "git init -q .; for i in 1 2 3; do echo $i >f$i; echo x$i >g$i; git add .; git commit -qm c$i; done", run: `GIT_SEQUENCE_EDITOR='sed -i -e "2s/^pick/edit/" -e "2a exec test -e done"' git rebase -q -i --root >/dev/null 2>&1; git reset -q HEAD~; git add f2; git commit -qm two-a; git add g2; git commit -qm two-b
git rebase --continue >/dev/null 2>&1; echo $?; touch done; git rebase --continue >/dev/null 2>&1; echo $?; rm done; git log --format='%s %T'; git status --porcelain; ls .git | grep rebase
true`, then: "git fsck --strict; git log --format=%H; git status --porcelain"},
	{name: "git rebase --rebase-merges with an octopus", needs: "git", slow: true, setup: "git init -q .; echo 0 >f; git add .; git commit -qm base; for b in a b c; do git checkout -q -b $b main; echo $b >$b; git add .; git commit -qm $b; done; git checkout -q main; git merge -q -m octo a b c; echo z>z; git add .; git commit -qm z", run: `git rebase -q --rebase-merges --root 2>/dev/null; echo $?; git log --format='%s %p' | sed 's/[0-9a-f]\{7\}/x/g'; ls; true`, then: "git status --porcelain; git fsck"},
	{name: "git rebase --update-refs --autostash", needs: "git", slow: true, setup: "git init -q .; for i in 1 2 3 4; do echo $i >f$i; git add .; git commit -qm c$i; git branch b$i; done; git checkout -q -b base b1; echo n >n; git add n; git commit -qm n; git checkout -q main; echo dirty >>f4", run: "git rebase -q --update-refs --autostash base >/dev/null 2>&1; echo $?; git for-each-ref --format='%(refname) %(objectname)'; git diff --stat; git stash list; true", then: "git status --porcelain; git log --format=%H"},
	{name: "git bisect run with a build, and a replayed log", needs: "git make cc", slow: true, setup: `git init -q .; printf 'p: p.c\n\tcc -o p p.c\n' >Makefile; for i in 1 2 3 4 5 6 7 8; do if [ $i = 4 ]; then echo 'broken' >p.c; elif [ $i -ge 6 ]; then echo 'int main(void){return 1;}' >p.c; else echo 'int main(void){return 0;}' >p.c; fi; echo "//$i" >>p.c; git add .; git commit -qm c$i; done; echo p >.gitignore`, run: `printf '#!/bin/sh\nrm -f p; make -s 2>/dev/null || exit 125\n./p\n' >t.sh; chmod 755 t.sh; git bisect start HEAD HEAD~7 >/dev/null 2>&1; git bisect run ./t.sh >/dev/null 2>&1; git show -s --format=%s refs/bisect/bad; git bisect log >log; git bisect reset >/dev/null 2>&1; git bisect replay log >/dev/null 2>&1; git show -s --format=%s refs/bisect/bad; git bisect reset >/dev/null 2>&1; rm -f p log t.sh; git status --porcelain; true`, then: "git status --porcelain; git log -1 --format=%s"},
	{name: "git sparse-checkout with a sparse index", needs: "git", slow: true, setup: "git init -q .; for d in a b c/x c/y; do mkdir -p $d; for i in 1 2 3; do echo $i >$d/$i; done; done; git add .; git commit -qm one", run: "git sparse-checkout init --cone --sparse-index; git sparse-checkout set c/x; ls; ls c; git ls-files --sparse | head; git sparse-checkout add a; ls; echo n >c/x/1; mkdir b; echo 9 >b/1; git sparse-checkout reapply 2>/dev/null; git status --porcelain; rm -rf b; git commit -qam two; git sparse-checkout disable; ls; cat c/x/1; true", then: "git status --porcelain; git ls-files | wc -l"},
	{name: "git bundle: all, a range, fetch of it", needs: "git", slow: true, loose: true, setup: "git init -q s; cd s; for i in 1 2 3; do echo $i >f; git add .; git commit -qm c$i; git tag v$i; done", run: "git -C s bundle create ../full.bundle --all 2>/dev/null; git -C s bundle create ../inc.bundle v2..main --tags 2>/dev/null; git bundle verify -q full.bundle; git clone -q full.bundle c; git -C c remote -v | wc -l; cd c; git fetch -q ../inc.bundle 'refs/tags/*:refs/tags/*'; git tag; git bundle list-heads ../inc.bundle | cut -d' ' -f2 | sort; git bundle unbundle ../full.bundle | cut -d' ' -f2 | sort; true", then: "git -C c fsck; git -C c log --format=%s"},
	{name: "git notes: merge, append, amend", needs: "git", slow: true, setup: "git init -q .; for i in 1 2 3; do echo $i >f; git add .; git commit -qm c$i; done", run: "git config notes.rewriteRef 'refs/notes/*'; git notes add -m n1 HEAD; git notes --ref=review add -m r1 HEAD~; git notes append -m more HEAD; git notes --ref=other add -m o HEAD; git notes merge -q -s union other 2>/dev/null; git notes show HEAD; git commit -q --amend -m new; git notes show HEAD; git notes list | wc -l; git notes remove HEAD 2>/dev/null; git log --format='%s %N' --notes='*'; true", then: "git fsck; git for-each-ref --format='%(refname)'"},
	{name: "git stash: keep-index, branch, names that collide", needs: "git", slow: true, setup: "git init -q .; seq 10 >f; mkdir d; echo d >d/d; git add .; git commit -qm one", run: "echo s >>f; git add f; echo u >>f; echo n >d/n; git stash push -q -k -u -m first; cat f | tail -n1; git stash show -p --include-untracked | grep -c '^+'; git stash branch b -q >/dev/null 2>&1; git status --porcelain; git commit -qam w; echo z >z; git stash push -q -u -- z; ls; echo blocked >z; git stash pop -q 2>/dev/null; echo $?; git stash list | wc -l; git stash clear; git stash list; true", then: "git status --porcelain; git log --format=%s"},
	{name: "git fsmonitor's hook", needs: "git perl", flags: "--allow-exec", slow: true, loose: true, setup: `git init -q .; for i in 1 2 3; do echo $i >$i; done; git add .; git commit -qm one; printf '#!/bin/sh\nprintf "token\\0"; printf "2\\0"\n' >.git/hooks/q; chmod 755 .git/hooks/q`, run: "git config core.fsmonitor .git/hooks/q; git update-index --fsmonitor; git status --porcelain; echo x >2; git status --porcelain; git update-index --no-fsmonitor; git config --unset core.fsmonitor; git status --porcelain; true", then: "git status --porcelain"},
	{name: "git gc --aggressive, cruft packs", needs: "git", slow: true, loose: true, setup: "git init -q .; for i in 1 2 3 4 5 6 7 8; do seq $((i*100)) >f; git add f; git commit -qm $i; done; git reset -q --hard HEAD~3", run: `git gc -q --aggressive --cruft --prune=2.weeks.ago; ls .git/objects/pack | sed 's/.*\.//' | sort; git reflog expire --expire=all --all; git gc -q --prune=now; git count-objects -v | grep -E '^(count|in-pack)'; git fsck --unreachable | wc -l; git verify-pack .git/objects/pack/*.idx; echo $?; ls -l .git/objects/pack | cut -c1-10 | sort -u; true`, then: "git log --oneline | wc -l; git gc -q; git fsck"},
	{name: "git switch, restore, checkout -m and -p", needs: "git perl", slow: true, setup: "git init -q .; seq 20 >f; git add .; git commit -qm one; git switch -q -c side; sed -i s/^3$/three/ f; git commit -qam side; git switch -q main; sed -i s/^3$/drei/ f", run: `git checkout -q -m side 2>/dev/null; git status --porcelain; git checkout -q --conflict=zdiff3 f; grep -c '|||||||' f; git restore --source=main -SW f; git diff --stat --cached; printf 'y\n' | git checkout -p main -- f >/dev/null 2>&1; git restore -s HEAD~ --staged f 2>/dev/null; git switch -q -f main; git switch -q - ; git branch --show-current; git switch -q --detach HEAD~0; git reflog | wc -l; true`, then: "git status --porcelain; git log --format=%s"},
	{name: "git clean -xfd with a nested repository", needs: "git", slow: true, loose: true, setup: "git init -q .; echo '*.o' >.gitignore; git add .; git commit -qm one; mkdir -p x/y; touch x/y/a.o x/b; git init -q nested; touch nested/f", run: "git clean -n -xfd | sort; git clean -xfdq; ls; git clean -xffdq; ls -A; true", then: "git status --porcelain --ignored"},
	{name: "git: a directory that becomes a file, and a link a directory", needs: "git", setup: "git init -q .; echo a >name; mkdir d; echo b >d/f; ln -s d l; git add .; git commit -qm one", run: "git mv name Name; git rm -q --cached l; rm l; mkdir l; echo in >l/in; git rm -rq d; echo now >d; git add -A; git commit -qm two; git checkout -q HEAD~; ls -F; git checkout -q main; ls -F; git diff --summary HEAD~ HEAD; true", then: "git status --porcelain; git fsck; ls -F"},
	{name: "git: names that are not UTF-8, very long paths", needs: "git", slow: true, setup: "git init -q .", run: `printf x >"$(printf 'a\377b')"; printf y >"tab	x"; n=$(printf 'n%.0s' $(seq 200)); mkdir -p $n/$n/$n; echo z >$n/$n/$n/f; git add -A; git commit -qm odd; git ls-files | cut -c1-30; git -c core.quotePath=false ls-files -z | tr '\0' '\n' | wc -l; git rm -rq .; git checkout -q HEAD -- .; git status --porcelain; git mv $n short; git commit -qm s; find short -type f | wc -c; true`, then: "git status --porcelain; git fsck"},
	{name: "git init --separate-git-dir, moved again", needs: "git", flags: "--allow-exec", slow: true, loose: true, setup: "mkdir -p tpl/info; echo '*.tmp' >tpl/info/exclude; mkdir app; echo a >app/a", run: "cd app; git init -q -b main --template=../tpl --separate-git-dir=../app.git .; cat .git | sed 's,/.*/,,'; git add a; git commit -qm one; touch x.tmp; git status --porcelain; cd ..; GIT_DIR=$PWD/app.git GIT_WORK_TREE=$PWD/app git log --format=%s; git init -q --separate-git-dir=moved.git app; cat app/.git | sed 's,/.*/,,'; ls; true", then: "git -C app log --format=%s 2>/dev/null | head -1"},
	{name: "git over a program in place of ssh", needs: "git", slow: true, loose: true, setup: `git init -q s; cd s; echo 1 >f; git add .; git commit -qm one; cd ..; printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n' >fakessh; chmod 755 fakessh`, run: "export GIT_SSH_COMMAND=$PWD/fakessh; git clone -q ssh://host$PWD/s c; git -C c log --format=%s; echo 2 >s/g; git -C s add g; git -C s commit -qm two; git -C c pull -q; git -C c log --format=%s; git -C c push -q origin HEAD:refs/heads/n; git -C s branch | sort; true", then: "git -C c status --porcelain; git -C c fsck"},
	{name: "git over http, push and shallow clones", needs: "git python3", who: "user", slow: true, loose: true, setup: `git init -q --bare r.git; git -C r.git config http.receivepack true; git init -q s; cd s; for i in 1 2 3; do echo $i >f; git add .; git commit -qm $i; done; cd ..; mkdir cgi-bin; printf '#!/bin/sh\nGIT_PROJECT_ROOT=%s GIT_HTTP_EXPORT_ALL=1 exec git http-backend\n' $PWD >cgi-bin/git; chmod 755 cgi-bin/git`, run: "/usr/bin/python3 -m http.server --cgi --bind 127.0.0.1 18984 >/dev/null 2>&1 & p=$!; u=http://127.0.0.1:18984/cgi-bin/git/r.git; i=0; until git ls-remote -q $u >/dev/null 2>&1; do i=$((i+1)); [ $i -lt 100 ] || break; sleep .1; done; git -C s push -q $u HEAD:main 2>/dev/null; echo $?; git clone -q --depth 1 $u c; git -C c log --format=%s; git -C c fetch -q --deepen=1; git -C c log --format=%s | wc -l; kill $p; wait; true", then: "git -C r.git log --format=%s main; git -C c fsck"},
	{name: "git blame -C and log -L over a renamed directory", needs: "git", slow: true, setup: "git init -q .; mkdir src; seq 50 >src/a; git add .; git commit -qm one; git mv src lib; git commit -qm moved; sed -i s/^7$/seven/ lib/a; git commit -qam edit; sed -n 10,40p lib/a >lib/b; git add .; git commit -qm copied", run: "git log --follow --format=%s lib/a; git log -L7,7:lib/a --format=%s -s; git log -S seven --format=%s; git blame -s -C -C -C lib/b | cut -c1-20 | sort | uniq -c | wc -l; git log --stat -M -C --format= --find-copies-harder | tail -5; git mv lib/a lib/c; git log --format=%s -- lib/c; git diff -M --cached --summary; true", then: "git status --porcelain"},
	{name: "git read-tree and write-tree with an index of its own", needs: "git", slow: true, setup: "git init -q .; echo a >a; mkdir d; echo b >d/b; git add .; git commit -qm one", run: `export GIT_INDEX_FILE=$PWD/.git/tmpidx; git read-tree HEAD; printf '100644 %s\tnew/x\n' $(echo x | git hash-object -w --stdin) | git update-index --index-info; git write-tree; git ls-files -s | wc -l; rm $GIT_INDEX_FILE; unset GIT_INDEX_FILE; git ls-files | git cat-file --batch-check 2>/dev/null | wc -l; git ls-tree -r HEAD | awk '{print $3}' | git cat-file --batch | md5sum; git checkout-index -f -a --temp | wc -l; rm .merge_file*; git merge-tree HEAD HEAD | wc -l; true`, then: "git status --porcelain; git fsck"},
	{name: "git add by 8 processes at once", needs: "git", slow: true, loose: true, setup: "git init -q .; for i in $(seq 40); do echo $i >f$i; done; git add .; git commit -qm one", run: "for i in 1 2 3 4 5 6 7 8; do (echo x$i >f$i; until git add f$i 2>/dev/null; do sleep .05; done) & done; wait; git diff --cached --name-only | wc -l; git commit -qm two; git status --porcelain; ls .git/*.lock 2>/dev/null; true", then: "git fsck; git status --porcelain"},
	{name: "names: 255 bytes, no UTF-8, control characters", needs: "rsync python3", slow: true, setup: "mkdir s", run: `python3 -c "
import os
for n in (b'a\xff\xfe', b'x'*255, b'tab\there', b'nl\nhere', b' lead', b'trail ', b'-rf', b'\x01\x02', 'ä'.encode('latin-1'), b'.hid'): open(b's/'+n,'wb').write(n)
print(len(os.listdir(b's')), sorted(os.listdir(b's'))[0])"
rsync -a s/ t/ && diff -r s t && echo same; find t -type f -print0 | sort -z | tr '\0' '\n' | od -c | md5sum; cp -a t u; for f in u/* ; do mv -- "$f" "$f.x" 2>/dev/null; done; ls -b u | cut -c1-20; rm -rf -- s u
true`, then: "ls -b t | cut -c1-30"},
	{name: "fallocate: punch, collapse, insert, zero", needs: "python3", slow: true, setup: `python3 -c "open('f','wb').write(b''.join(bytes([65+i])*4096 for i in range(8)))"; cp f g; cp f h`, run: "fallocate -p -o 4096 -l 4096 f; echo $?; fallocate -c -o 4096 -l 8192 g; echo $?; fallocate -i -o 4096 -l 4096 h; echo $?; fallocate -z -o 0 -l 100 f; fallocate -n -l 1M f; stat -c '%n %s' f g h; md5sum f g h; cmp f g | head -1; true", then: "stat -c '%n %s' f g h; md5sum f g h"},
	{name: "OFD locks and flock between a program and its child", needs: "python3 flock", slow: true, setup: "echo data >f", run: `python3 - <<'X'
import fcntl,os,struct,subprocess,errno
F=struct.pack('hhqqi4x',fcntl.F_WRLCK,0,0,0,0)
f=open('f','r+'); fcntl.fcntl(f,37,F)
print(subprocess.run(['python3','-c','import fcntl,struct\ng=open("f","r+")\ntry: fcntl.fcntl(g,37,struct.pack("hhqqi4x",1,0,0,0,0)); print("got")\nexcept OSError as e: print(e.errno)'],capture_output=True,text=True).stdout.strip())
print(subprocess.run(['flock','-n','f','echo','flock is apart'],capture_output=True,text=True).stdout.strip())
g=struct.unpack('hhqqi4x',fcntl.fcntl(open('f','r+'),36,F)); print(g[0],g[4])
fcntl.fcntl(f,37,struct.pack('hhqqi4x',fcntl.F_UNLCK,0,0,0,0))
X
exec 9>l; flock 9; (flock -w 0.1 -x l true; echo $?); flock -u 9; flock -w 5 l echo free; flock -E 77 -n . flock -E 78 -n . true; echo $?
true`},
	{name: "mmap of an old file by two processes, resized, truncated below", needs: "python3", setup: `python3 -c "open('f','wb').write(b'0'*16384)"`, run: `python3 - <<'X'
import mmap,os,signal
f=os.open('f',os.O_RDWR); a=mmap.mmap(f,16384); p=mmap.mmap(f,16384,flags=mmap.MAP_PRIVATE)
if os.fork()==0:
  b=mmap.mmap(os.open('f',os.O_RDWR),16384); b[8192]=ord('B'); b.flush(); os._exit(0)
os.wait(); print(a[8192:8193],p[8192:8193]); p[0:1]=b'P'; print(a[0:1]); a.madvise(mmap.MADV_DONTNEED); a.resize(20480); a[20479:20480]=b'E'; a.flush(); print(os.fstat(f).st_size)
if os.fork()==0:
  os.ftruncate(f,4096); a[10000]; os._exit(0)
print(os.wait()[1]==signal.SIGBUS)
X
true`, then: "wc -c f; md5sum f"},
	{name: "renames of old directories, with every error", needs: "python3", setup: "mkdir -p a/b/c e full/x; echo 1 >a/b/c/f; echo 2 >full/x/y", run: `python3 - <<'X'
import os,errno
def t(f,*a):
  try: f(*a); print('ok')
  except OSError as e: print(errno.errorcode[e.errno])
t(os.rename,'a','e'); t(os.rename,'e/b','full'); t(os.rename,'e','e/b/x'); t(os.rename,'e/b/c','new'); t(os.rename,'new','e/b/c'); t(os.rename,'full','e/b/full'); t(os.rename,'e/b','.'); t(os.rename,'e/b','e/..'); t(os.rename,'nope','x')
os.mkdir('n'); t(os.rename,'e','n/e'); os.chdir('n'); t(os.rename,'../n','../m'); print(os.getcwd().endswith('/m')); t(os.rename,'e/b','b'); print(sorted(os.listdir('.')))
X
find . | sort
true`, then: "find . | sort; cat m/b/c/f"},
	{name: "renameat2 of old files and directories, with every flag", needs: "python3", setup: "mkdir d; echo f >f; echo in >d/in; ln -s f l", run: `python3 - <<'X'
import ctypes,os,errno
l=ctypes.CDLL(None,use_errno=True)
def r(a,b,f): print(a,b,f, l.renameat2(-100,a.encode(),-100,b.encode(),f) or 0, errno.errorcode.get(ctypes.get_errno()) if ctypes.get_errno() else ''); ctypes.set_errno(0)
r('f','d',2); r('f','d',2); r('l','f',2); r('l','f',1); r('f','n',1); r('nope','f',2); r('d','n',1); r('d','m',3); r('d','d/x',2)
print(sorted(os.listdir('.')))
X
true`, then: "ls -lR | awk '{print $1,$9,$10,$11}'"},
	{name: "hard links: 100 names, packed and unpacked", needs: "python3", slow: true, setup: "mkdir a b; echo x >a/f; for i in $(seq 100); do ln a/f b/$i; done", run: `stat -c %h a/f; rm b/5*; ls b | wc -l; tar -cf t.tar a b; rm -r a b; tar -xf t.tar; stat -c %h a/f; echo y >>b/1; cat a/f; python3 -c "
import os
f=os.open('b/2',os.O_RDWR); os.unlink('b/2'); os.write(f,b'z'); print(os.fstat(f).st_nlink, open('a/f').read())"; rm t.tar
true`, then: "stat -c %h a/f; cat b/3"},
	{name: "open by O_PATH, O_NOFOLLOW, O_DIRECTORY, /proc/self/fd", needs: "python3", setup: "echo a >a; ln -s a l; mkdir d; chmod 444 a", run: `python3 - <<'X'
import os,errno
def t(n,f):
  try: print(n,f())
  except OSError as e: print(n,errno.errorcode[e.errno])
t('access',lambda: (os.access('a',os.R_OK),os.access('a',os.X_OK),os.access('d',os.W_OK|os.X_OK)))
t('nofollow',lambda: os.open('l',os.O_RDONLY|os.O_NOFOLLOW)); t('dir',lambda: os.open('a',os.O_RDONLY|os.O_DIRECTORY)); t('creat dir',lambda: os.open('d',os.O_CREAT|os.O_WRONLY))
p=os.open('a',os.O_PATH); t('reopen',lambda: os.read(os.open('/proc/self/fd/%d'%p,os.O_RDONLY),9)); t('read path',lambda: os.read(p,1)); t('fchmod path',lambda: os.fchmod(p,0o600)); t('chmod proc',lambda: os.chmod('/proc/self/fd/%d'%p,0o640)); print(oct(os.stat('a').st_mode))
t('lchown',lambda: os.lchown('l',os.getuid(),os.getgid())); t('excl',lambda: os.open('l',os.O_CREAT|os.O_EXCL|os.O_WRONLY)); t('trunc',lambda: os.close(os.open('a',os.O_WRONLY|os.O_TRUNC))); print(os.stat('a').st_size)
X
true`, then: "stat -c '%n %a %s' a"},
	{name: "times of old files and directories, kept over renames and links", needs: "python3", slow: true, setup: "echo a >a; touch -d @1000 a; mkdir d; touch -d @2000 d", run: `python3 - <<'X'
import os,time
s=os.stat('a'); os.utime('a',ns=(5*10**9+7,6*10**9+9)); t=os.stat('a'); print(t.st_mtime_ns,t.st_atime_ns,t.st_ctime_ns>s.st_ctime_ns)
os.utime('d',(3,4)); print(os.stat('d').st_mtime); open('d/x','w').close(); print(os.stat('d').st_mtime>10**9); os.utime('d',(3,4))
b=os.stat('a').st_mtime_ns; open('a').read(); print(os.stat('a').st_mtime_ns==b); os.rename('a','b'); print(os.stat('b').st_mtime_ns==b); os.link('b','c'); print(os.stat('c').st_mtime_ns==b)
X
touch -c none; ls; stat -c %w b | cut -c1-2
true`, then: "stat -c '%n %Y' b c d"},
	{name: "default access control lists, inherited", needs: "setfacl", slow: true, setup: "mkdir d; setfacl -d -m u::rwx,g::rx,o::- d", run: "mkdir d/e; touch d/e/f; getfacl -cE d/e d/e/f; chmod g+w d/e/f; getfacl -cE d/e/f; cp -a d c; getfacl -cE c/e; setfacl -b c; setfacl -k d; getfacl -cE d; setfacl -m u:$(id -u):rwx d/e/f; getfacl -cE d/e/f; getfacl -R d >acl; setfacl --restore=acl; echo $?; true", then: "getfacl -cE d/e/f c/e"},
	{name: "umask, and modes of old and new directories", slow: true, setup: "touch old; mkdir olddir; chmod 700 old", run: "umask 027; touch a; mkdir b; chmod 2775 b; mkdir b/c; touch b/f; stat -c '%n %a' a b b/c b/f; chmod 0 old; stat -c %a old; chmod 1777 olddir; chmod 4755 a; chmod 755 a; stat -c '%n %a' a olddir; install -m 4750 /bin/true x 2>/dev/null; rm -f x; chmod u=rw,go= a; chmod --reference=b olddir; stat -c %a olddir; true", then: "stat -c '%n %a' *"},
	{name: "a deep old tree is renamed, copied, removed", needs: "python3", slow: true, setup: `python3 -c "
import os
for i in range(150): os.mkdir('dddd%d'%i); os.chdir('dddd%d'%i)
open('leaf','w').write('x')"`, run: "find . | wc -l; mv dddd0 top; find . -name leaf | wc -l; cp -a top copy; du -a copy | wc -l; rm -rf top; find copy -name leaf -exec cat {} +; true", then: "find copy | wc -l"},
	{name: "editors that replace an old file, or write to it", needs: "python3 perl vim", slow: true, setup: "for i in 1 2 3 4 5; do echo one >f$i; chmod 750 f$i; done; ln -s f4 s4", run: `sed -i s/one/two/ f1; perl -i.bak -pe s/one/two/ f2; vim -u NONE -N -es -c 'set backupcopy=no' -c '%s/one/two/' -c wq f3; vim -u NONE -N -es -c '%s/one/two/' -c wq s4; python3 -c "
import os,shutil
open('t','w').write('two\n'); shutil.copymode('f5','t'); os.replace('t','f5')"; stat -c '%n %a %h %F' f* s4; cat f*
true`, then: "stat -c '%n %a %h %F' f* s4; cat f*"},
	{name: "sqlite3: writers, backup, a killed one, WAL", needs: "sqlite3", slow: true, loose: true, setup: "sqlite3 a.db 'create table t(x); insert into t values(1);'", run: `for i in 1 2 3 4 5; do (sqlite3 -cmd '.timeout 30000' a.db "begin immediate; insert into t select max(x)+1 from t; commit;") & done; wait; sqlite3 a.db 'select count(*), max(x) from t; vacuum into "v.db"; '; sqlite3 a.db '.backup b.db'; sqlite3 b.db 'pragma integrity_check'; (echo 'begin; insert into t values(99);'; echo '.shell kill -9 $PPID') | sqlite3 a.db 2>/dev/null; sqlite3 a.db 'select count(*) from t'; ls; sqlite3 a.db "attach '/tmp/z19018.db' as z; create table z.u as select * from t; select count(*) from z.u;"; rm /tmp/z19018.db; sqlite3 a.db 'create virtual table f using fts5(c); insert into f values("hello world"); select * from f where f match "world"; pragma journal_mode=wal; pragma mmap_size=1000000; select 1;'; true`, then: "sqlite3 a.db 'select count(*) from t; pragma integrity_check'"},
	{name: "dpkg-buildpackage of a C program", needs: "dpkg-buildpackage dh cc make", slow: true, loose: true, setup: `mkdir -p x/debian/source; cd x; printf 'Source: xyz\nSection: misc\nPriority: optional\nMaintainer: a <a@b>\nBuild-Depends: debhelper-compat (= 13)\nRules-Requires-Root: no\n\nPackage: xyz\nArchitecture: any\nDepends: ${shlibs:Depends}, ${misc:Depends}\nDescription: x\n y\n' >debian/control; printf 'xyz (1) unstable; urgency=low\n\n  * x\n\n -- a <a@b>  Thu, 01 Jan 1970 00:00:00 +0000\n' >debian/changelog; printf '#!/usr/bin/make -f\n%%:\n\tdh $@\n' >debian/rules; chmod 755 debian/rules; echo '3.0 (native)' >debian/source/format; echo 'int main(void){return 0;}' >x.c; printf 'all: x\nx: x.c\n\tcc -g -o x x.c\ninstall:\n\tinstall -D x $(DESTDIR)/usr/bin/x\nclean:\n\trm -f x\n' >Makefile`, run: "cd x; dpkg-buildpackage -us -uc -d >../log 2>&1; echo $?; ls .. | sed 's/_amd64//'; dpkg-deb -c ../xyz_1_amd64.deb | awk '{print $1,$2,$6}'; dpkg-deb -f ../xyz_1_amd64.deb Depends; dpkg-source -x ../xyz_1.dsc ../y 2>/dev/null >&2; ls ../y; dpkg-parsechangelog -SVersion; fakeroot debian/rules clean >/dev/null 2>&1; echo $?; ls debian; tail -3 ../log | grep -i error; rm ../log; true", then: "cd x; dpkg-genchanges -b >/dev/null 2>&1; echo $?"},
	{name: "dpkg in a root of one's own", needs: "dpkg-scanpackages fakeroot dpkg-deb", slow: true, loose: true, setup: `mkdir -p pkg/DEBIAN pkg/usr/share/x; printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' >pkg/DEBIAN/control; echo c >pkg/usr/share/x/c; dpkg-deb -Znone --root-owner-group -b pkg x.deb >/dev/null`, run: "mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates; : >root/var/lib/dpkg/status; fakeroot dpkg --root=$PWD/root --force-not-root --force-script-chrootless --log=$PWD/log -i x.deb >out 2>&1; echo $?; cat root/usr/share/x/c; dpkg --root=$PWD/root -l x 2>/dev/null | tail -1 | cut -c1-2; dpkg-scanpackages -m . 2>/dev/null | grep -c ^Package; fakeroot dpkg --root=$PWD/root --force-not-root --force-script-chrootless --log=$PWD/log -r x >/dev/null 2>&1; echo $?; ls root/usr/share 2>/dev/null | wc -l; head -3 out | grep -i error; rm -f log out; true"},
	{name: "rsync: daemon, --inplace, --backup, attributes", needs: "rsync setfattr", who: "user", slow: true, loose: true, setup: "mkdir -p s/d; echo a >s/a; seq 3000 >s/d/n; setfattr -n user.q -v 1 s/a; ln s/a s/h; cp -a s old; echo stale >old/stale", run: `rsync -aHAX --delete s/ old/; ls old; getfattr -d old/a | tail -2; echo z >>s/d/n; rsync -a --inplace --no-whole-file s/ old/; tail -1 old/d/n; rsync -ab --suffix=.bak --exclude=d s/ old/; printf 'pid file=%s/rp\nport=%s\naddress=127.0.0.1\nuse chroot=no\n[m]\npath=%s/s\nread only=no\n' $PWD 19028 $PWD >rc; rsync --daemon --no-detach --config=rc --log-file=rl & p=$!; i=0; until rsync -a rsync://127.0.0.1:19028/m/ net/ 2>/dev/null || [ $i -gt 50 ]; do i=$((i+1)); sleep .1; done; diff -r s net && echo same; rsync -a net/a rsync://127.0.0.1:19028/m/pushed; ls s; kill $p; wait; rsync -a --link-dest=$PWD/net s/ snap/; stat -c %h snap/d/n; rsync -aniO --delete s/ net/ | sort; rm -f rp rl rc; true`, then: "stat -c '%n %h' snap/d/n net/d/n"},
	{name: "bwrap: nested, files by descriptor, own ids", needs: "bwrap", who: "user", flags: "--allow-userns", slow: true, loose: true, setup: "mkdir d; echo a >d/a", run: "bwrap --ro-bind / / --bind $PWD $PWD --tmpfs $PWD/d --dev /dev --proc /proc --unshare-all --chdir $PWD sh -c 'ls d; echo w >w; cat /proc/self/uid_map | wc -l; touch /usr/x 2>/dev/null; echo $?'; cat w; bwrap --ro-bind / / --proc /proc --dev /dev --unshare-user bwrap --ro-bind / / --unshare-user --dev /dev sh -c 'echo nested; test -w /usr; echo $?'; bwrap --dev-bind / / --unshare-user --uid 0 --gid 0 id -u; bwrap --ro-bind / / --ro-bind d/a /etc/hostname --unshare-net cat /etc/hostname; bwrap --ro-bind / / --perms 0700 --dir /tmp/zz --symlink a /tmp/zl readlink /tmp/zl; cd d; bwrap --ro-bind / / --file 3 /tmp/from 3<a cat /tmp/from; true"},
	{name: "tmux: panes, keys, captures", needs: "tmux", slow: true, loose: true, run: `export TERM=screen; T="tmux -L t19032 -f /dev/null"; $T new -d -s a -x 80 -y 24 sh; $T split-window -t a 'cat >pane'; $T send-keys -t a.0 'echo one >o1; tmux wait-for -S done' Enter; $T wait-for done; cat o1; $T send-keys -t a.1 hello Enter C-d; i=0; until [ -s pane ] || [ $i -gt 100 ]; do i=$((i+1)); sleep .1; done; cat pane; $T new-window -t a -n w 'echo shown; sleep 30'; i=0; until $T capture-pane -p -t a:w | grep shown || [ $i -gt 100 ]; do i=$((i+1)); sleep .1; done; $T list-windows -t a | wc -l; $T pipe-pane -t a:0 'cat >piped'; $T resize-window -t a -x 100 -y 30; $T display -p -t a '#{window_width}'; $T kill-server; ls; true`},
	{name: "open files of a directory that is renamed", needs: "python3", setup: "mkdir -p d/e; echo old >d/e/f; echo log >d/log", run: `python3 - <<'X'
import os
f=open('d/e/f','a'); l=open('d/log','r+'); f.write('one\n'); f.flush()
os.rename('d','n'); f.write('two\n'); f.flush(); l.seek(0,2); l.write('more\n'); l.flush()
print(open('n/e/f').read(), open('n/log').read()); os.rename('n/e/f','n/g'); f.write('three\n'); f.close(); print(open('n/g').read())
r=open('n/g'); os.rename('n','m'); print(r.read()); print(os.path.samestat(os.fstat(r.fileno()),os.stat('m/g')))
X
cat m/g m/log
true`, then: "cat m/g m/log"},
	{name: "a new directory is renamed that is the working directory", needs: "python3", slow: true, run: "mkdir -p n/sub; cd n/sub; echo a >a; mv ../../n ../../m; pwd -P | sed 's,.*/p/,,'; ls; echo b >b; cd ..; ls sub; true", then: "ls -R"},
	{name: "a tree is built aside and renamed over an old one", needs: "python3", setup: "mkdir -p node_modules/a/lib node_modules/.bin; echo 1 >node_modules/a/lib/x; ln -s ../a/lib/x node_modules/.bin/x; chmod 755 node_modules/a/lib/x", run: `python3 - <<'X'
import os,shutil
for k in range(5):
  os.makedirs('node_modules/.a-new/lib'); open('node_modules/.a-new/lib/x','w').write(str(k)); os.rename('node_modules/a','node_modules/.a-old'); os.rename('node_modules/.a-new','node_modules/a'); shutil.rmtree('node_modules/.a-old')
os.rename('node_modules','nm'); os.rename('nm','node_modules'); print(open('node_modules/.bin/x').read(), os.listdir('node_modules'))
X
true`, then: "cat node_modules/.bin/x; find . | sort"},
	{name: "releases that are switched by a link", slow: true, setup: "mkdir -p releases/1 releases/2; echo 1 >releases/1/v; echo 2 >releases/2/v; ln -s releases/1 current", run: "mkdir releases/3; echo 3 >releases/3/v; ln -s releases/3 current.tmp; mv -T current.tmp current; cat current/v; rm -rf releases/1; mv releases/2 releases/2.bak; ls releases; ln -sfn releases/2.bak previous; cat previous/v; readlink current; true", then: "cat current/v previous/v; ls releases"},
	{name: "a log that is rotated below its writer", needs: "python3", slow: true, setup: "echo old >app.log", run: `python3 - <<'X'
import os,gzip,shutil
w=open('app.log','a'); w.write('1\n'); w.flush(); os.rename('app.log','app.log.1'); w.write('2\n'); w.flush(); w2=open('app.log','a'); w2.write('3\n'); w2.flush()
print(open('app.log.1').read(),open('app.log').read()); shutil.copy('app.log','app.log.2'); os.truncate('app.log',0); w2.write('4\n'); w2.flush(); print(open('app.log').read())
g=gzip.open('app.log.1.gz','wb',mtime=0); g.write(open('app.log.1','rb').read()); g.close(); os.unlink('app.log.1')
X
ls
true`, then: "cat app.log app.log.2; ls"},
	{name: "a database: O_DSYNC, preallocated log, renames", needs: "python3", slow: true, setup: `python3 -c "open('db','wb').write(b'\0'*65536)"`, run: `python3 - <<'X'
import os,ctypes
f=os.open('db',os.O_RDWR|os.O_DSYNC); os.pwrite(f,b'page',4096); os.fdatasync(f); l=ctypes.CDLL(None); print(l.sync_file_range(f,ctypes.c_long(0),ctypes.c_long(8192),7))
w=os.open('wal.tmp',os.O_CREAT|os.O_RDWR,0o600); os.posix_fallocate(w,0,1<<20); os.pwrite(w,b'x'*100,0); os.fsync(w); os.rename('wal.tmp','wal'); d=os.open('.',os.O_DIRECTORY); os.fsync(d); print(os.fstat(w).st_size, l.syncfs(f)); os.unlink('wal'); os.pwrite(w,b'y',0); print(os.pread(w,2,0)); l.sync()
X
true`, then: "md5sum db; ls"},
	{name: "a descriptor is passed by a socket, in the project and in /tmp", needs: "python3", slow: true, setup: "echo data >f", run: `for s in ./s /tmp/s-19046; do python3 - $s <<'X' &
import socket,os,sys,time
s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); c,_=s.accept(); _,fds,_,_=socket.recv_fds(c,9,1); os.lseek(fds[0],0,2); os.write(fds[0],b'appended\n'); c.send(b'k'); os.unlink(sys.argv[1])
X
python3 - $s <<'X'
import socket,os,sys,time
while True:
  try: c=socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); break
  except OSError: time.sleep(.05)
f=os.open('f',os.O_RDWR); socket.send_fds(c,[b'x'],[f]); c.recv(1); print(os.pread(f,99,0), c.getsockopt(socket.SOL_SOCKET,17,12)!=b'')
X
wait; done
true`, then: "cat f"},
	{name: "32 processes write, rename and remove in an old directory", needs: "python3", slow: true, loose: true, setup: "mkdir d; for i in $(seq 32); do echo 0 >d/$i; done", run: `python3 - <<'X'
import os
def w(i):
  for k in range(20):
    p='d/%d'%i; open(p+'.t','w').write(str(k)); os.replace(p+'.t',p); open('d/shared','a').write('.'); 
    try: os.link(p,'d/l%d'%i); os.unlink('d/l%d'%i)
    except FileExistsError: pass
  os._exit(0)
for i in range(1,33):
  if os.fork()==0: w(i)
for i in range(32): os.wait()
print(len(os.listdir('d')), os.path.getsize('d/shared'), {open('d/%d'%i).read() for i in range(1,33)})
X
true`, then: "ls d | wc -l; wc -c <d/shared"},
	{name: "two old trees are merged by cp -al and rsync", needs: "rsync", slow: true, setup: "mkdir -p a/x b/x; echo 1 >a/x/1; echo 2 >b/x/2; echo c >a/c; echo d >b/c", run: "cp -al a m; rsync -a --ignore-existing b/ m/; cat m/c; ls m/x; rsync -a --remove-source-files b/ a/; find b; find b -type d -empty -delete; cat a/c; stat -c '%n %h' a/c m/c a/x/1; true", then: "stat -c '%n %h' a/c m/c a/x/1 m/x/1; cat m/c"},
	{name: "closed and exchanged descriptors, process substitution", slow: true, setup: "echo file >f", run: `cat /dev/stdin <f; cat <&- 2>/dev/null; echo $?; (echo out; echo err >&2) 3>&1 1>&2 2>&3 | tr a-z A-Z; bash -c 'cat <<<here; tee >(cat >t1) >(cat >t2) <f >/dev/null; until [ -s t1 ] && [ -s t2 ]; do sleep .05; done; cat t1 t2; exec 7<>rw; echo hi >&7; cat rw; echo "${BASH_VERSINFO[0]}" >/dev/null'; exec 2>&-; ls nope; echo $?; true`},
	{name: "daemons, pid files, start-stop-daemon", slow: true, loose: true, run: "bash -c 'sleep 1 & disown; setsid sleep 32 & echo $! >pid; wait -n 2>/dev/null; true' & until [ -s pid ]; do sleep .05; done; kill $(cat pid) 2>/dev/null; echo $?; (trap '' HUP TERM; sleep .1; echo survived >s) & wait $!; cat s; start-stop-daemon --start --background --make-pidfile --pidfile $PWD/dp --exec /bin/sleep -- 33; i=0; until [ -s dp ] || [ $i -gt 50 ]; do i=$((i+1)); sleep .05; done; start-stop-daemon --status --pidfile $PWD/dp; echo $?; start-stop-daemon --stop --quiet --pidfile $PWD/dp --retry 5; echo $?; rm -f pid dp; true"},
	{name: "long arguments, odd and large environments", needs: "python3", slow: true, run: `env -i /bin/sh -c 'echo "${HOME-none} ${PATH-none}" | cut -c1-5'; env 'A B=1' 'x.y=2' sh -c 'env | grep -c "^A B\|^x.y"'; f() { echo func; }; bash -c 'g() { echo exported; }; export -f g; bash -c g'; python3 -c "
import subprocess,os
print(subprocess.run(['sh','-c','echo \${#1}','x','a'*100000],capture_output=True).stdout)
print(subprocess.run(['sh','-c','env | wc -c'],env={**os.environ,**{'V%d'%i:'x'*100000 for i in range(10)}},capture_output=True).stdout>b'1000000')
try: subprocess.run(['true','a'*200000])
except OSError as e: print(e.errno)"; getconf ARG_MAX; seq 50000 | xargs echo | wc -l
true`},
}
