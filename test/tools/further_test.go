//go:build linux

package tools

// furtherTasks are about old files that programs copy, move and change in ways of their own.
var furtherTasks = []task{
	{name: "ruby: cp_r, install, cp_lr of set-group-id files", needs: "ruby", flags: "--allow-special", setup: "mkdir -p d/sub; echo 1 >d/f; echo 2 >d/s; chmod 2755 d/s; chmod 2775 d/sub; touch -d @99 d/f",
		run:  `ruby -rfileutils -e 'FileUtils.cp_r("d","e",preserve: true); puts File.stat("e/s").mode.to_s(8); FileUtils.mv("e","x"); FileUtils.mkdir("bin2"); FileUtils.install("d/f","bin2/f",mode: 0750); FileUtils.rm_rf("x/sub"); FileUtils.chmod_R("g+w","d"); FileUtils.cp_lr("d","links"); puts File.stat("links/f").nlink, Dir["**/*"].sort'`,
		then: "stat -c '%a %n' d/* links/* x/*; stat -c %Y d/f x/f"},
	{name: "files made with the set-group-id bit", needs: "python3", flags: "--allow-special", run: `python3 - <<'X'
import os
os.umask(0)
os.close(os.open('f',os.O_CREAT|os.O_WRONLY,0o2751)); os.mknod('n',0o2750|0o100000); os.mkdir('d',0o2775)
print([oct(os.stat(n).st_mode) for n in 'fnd'])
X`, then: "stat -c '%a %n' f n d"},
	{name: "holes in old files", needs: "flock", setup: "head -c 2M /dev/zero >zeros; echo x >>zeros; cp zeros both; head -c 1M /dev/urandom >punched; truncate -s 4M sparse; echo x >>sparse",
		run: "fallocate -d zeros; fallocate -d both; echo y >>both; fallocate -p -o 64K -l 512K punched; touch sparse; stat -c '%n %s' *", then: `for f in *; do [ $(stat -c %b $f) -lt $(($(stat -c %s $f)/700)) ] && echo $f has holes; done; cksum *`},
	{name: "Python: names in open directories, old and new", needs: "python3", setup: "mkdir d d2; echo 1 >d/a; echo 2 >d2/x", run: `python3 - <<'X'
import os
fd=os.open("d",os.O_RDONLY)
print(sorted(e.name for e in os.scandir(fd)))
os.rename("a","b",src_dir_fd=fd,dst_dir_fd=fd); os.mkdir("n",dir_fd=fd); os.symlink("b","l",dir_fd=fd); print(os.readlink("l",dir_fd=fd), os.stat("l",dir_fd=fd).st_size)
print(os.path.samefile("d/b","d/l"), os.lstat("d/b").st_ino==os.stat("d/l").st_ino)
f=open("d/b","r+"); i=os.fstat(f.fileno()).st_ino; f.write("zz"); f.flush(); print(i==os.stat("d/b").st_ino)
os.chdir("d/n"); os.rename("../../d2","../m"); print(os.listdir(".."), os.path.basename(os.getcwd()))
os.rmdir("../n")
try: os.getcwd()
except OSError as e: print(e.strerror)
X`, then: "ls -R; cat d/b d/m/x"},
	{name: "perl: move, find, sysopen, utime, remove_tree", needs: "perl", setup: "mkdir d; echo 1 >d/f", run: `perl -MFile::Copy -MFile::Find -MFcntl -MFile::Path=make_path,remove_tree -e 'move("d","e") or die $!; copy("e/f","e/g"); make_path("x/y/z"); find({wanted=>sub{print "$File::Find::name\n"},preprocess=>sub{sort @_}},"e"); sysopen(F,"e/f",O_CREAT|O_EXCL|O_RDWR) or print "$!\n"; utime 5,6,"e/f"; print((stat "e/f")[9],"\n"); rename "e","x/y/e" or print "no: $!\n"; remove_tree("x/y/z"); link "x/y/e/f","lf" or print $!; print +(stat "lf")[3],"\n"'`,
		then: "stat -c '%h %Y' lf; find . | sort"},
	{name: "rsync: fake super, modes, filters, appended and in place", needs: "rsync", setup: "mkdir s s/d t; echo 1 >s/a; echo 2 >s/b.o; seq 1000 >s/log; seq 500 >t/log; seq 5000 >s/big; seq 4999 >t/big; touch -d @99 s/* s",
		run: "rsync -a --append-verify s/log t/log; rsync -a --inplace --no-whole-file s/big t/big; rsync -ai --fake-super --chmod=D2750,F640 --filter='- *.o' s/ u/; stat -c '%a %n' u u/*; rsync -ain --delete s/ u/; cksum t/*", then: "stat -c '%a %Y %n' u u/* t/*"},
	{name: "git: fast-import with SHA-256, merge-tree, merge-file", needs: "git", setup: "seq 3 >o; sed s/2/2b/ o >l; sed s/3/3c/ o >r; git init -q m; cd m; seq 5 >f; git add .; git commit -qm 0; git checkout -q -b x; sed -i s/3/x/ f; git commit -qam x; git checkout -q -b y main; sed -i s/3/y/ f; git commit -qam y",
		run:  `git init -q --object-format=sha256 r; printf 'commit refs/heads/main\ncommitter a <a@b> 1 +0000\ndata 1\nx\nM 100644 inline d/f\ndata 2\nhi\n\n' | git -C r fast-import --quiet; git -C r checkout -q main; cat r/d/f; git -C r rev-parse HEAD; git -C m merge-tree --write-tree x y | tail -3; git -C m checkout -q x; git -C m merge -q -X theirs y; cat m/f; git merge-file -p l o r; true`,
		then: "git -C r fsck; git -C r status --porcelain; git -C m log --format=%s; git -C m status --porcelain"},
	{name: "make with a directory as its stamp", needs: "make", setup: `mkdir deps; echo 1 >deps/a; touch -d @99 deps deps/a; echo a >list; touch -d @200 list; printf 'all: deps\n\t@echo built\ndeps: list\n\t@echo install; cat deps/a >/dev/null; touch $@\n' >Makefile`,
		run: "make; make", then: "make; [ deps -nt list ] && echo newer"},
	{name: "directories with names of one old file are renamed", setup: "mkdir -p a/s b c; echo 1 >a/f; ln a/f a/s/g; ln a/f b/h; ln a/f i; echo 2 >c/k; ln c/k c/l; chmod 555 a/s",
		run: "mv a x; mv b y; mv i y; mv c z; mv z c2; find . -samefile x/f | sort; stat -c '%n %h' c2/*; echo n >>c2/k; cat c2/l; cp -al x w; rm -rf y; find w x -samefile w/f | sort", then: "find . -samefile x/f | sort; stat -c '%n %h' c2/k w/f; chmod 755 x/s w/s"},
	{name: "tar, rsync and mv of trees with links", needs: "rsync", setup: "mkdir -p t/d r; echo 1 >t/f; ln t/f t/g; ln t/f t/d/h; cp -a t r/t",
		run: "mv t u; tar -cf a.tar u; tar -tvf a.tar | grep -c 'link to'; rsync -aH u/ r/u/; mv r s; stat -c '%n %h' s/*/f; rsync -aHin u/ s/t/; rm a.tar", then: "stat -c '%n %h' u/* s/*/f"},
	{name: "renames into directories that may not be searched", needs: "python3", who: "user", setup: "mkdir -p old/d closed/d; touch old/f", run: `chmod 600 closed; python3 -c "
import ctypes
l = ctypes.CDLL(None, use_errno=True)
for flags in 0, 1, 2:
    for a, b in ('old', 'closed/x'), ('closed/d', 'x'), ('old', 'closed/d'), ('old/f', 'closed/d'), ('closed/d', 'closed/x'), ('nothing', 'closed/d'):
        print(flags, a, b, ctypes.get_errno() if l.renameat2(-100, a.encode(), -100, b.encode(), flags) else 0)"; chmod 700 closed`},
}
