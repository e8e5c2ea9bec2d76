//go:build linux

package tools

var archiveTasks = []task{
	{name: "tar", slow: true, setup: "mkdir -p d/e; echo a >d/a; ln d/a d/h; ln -s a d/l; chmod 640 d/a; touch -d @99 d/a; touch -h -d @98 d/l", run: "tar -czf t.tgz d && rm -r d && tar -xpzf t.tgz && stat -c '%n %a %h %Y' d/a d/l && rm t.tgz", then: "stat -c '%n %a %h %Y' d/a d/h d/l"},
	{name: "tar over an existing tree", setup: "mkdir d; echo a >d/a; tar -cf t.tar d; echo changed >d/a; echo b >d/b", run: "tar -xf t.tar && cat d/a d/b && tar -xf t.tar --recursive-unlink && ls d"},
	{name: "tar with attributes", needs: "setfattr setfacl", setup: "echo a >a; setfattr -n user.x -v y a; setfacl -m u:$(id -u):r a; tar --xattrs --acls -cf t.tar a; rm a", run: "tar --xattrs --acls -xf t.tar && getfattr -d a && getfacl -c a", then: "getfattr -d a; getfacl -c a"},
	{name: "zip", needs: "zip unzip", setup: "mkdir d; echo a >d/a; ln -s a d/l", run: "zip -qry x.zip d && rm -r d && unzip -q x.zip && cat d/l && readlink d/l && rm x.zip"},
	{name: "cpio", needs: "cpio", setup: "mkdir d; echo a >d/a; ln d/a d/b", run: "find d | cpio -o -H newc --quiet >x.cpio && mkdir out && (cd out && cpio -id --quiet <../x.cpio) && stat -c '%n %h' out/d/a && rm x.cpio"},
	{name: "ar and ranlib", slow: true, needs: "cc", setup: "echo 'int f(void){return 1;}' >a.c; cc -c a.c", run: "ar Drcs liba.a a.o && ar t liba.a"},
	{name: "xz, zstd, bzip2, gzip", slow: true, needs: "xz zstd bzip2", setup: "seq 10000 >f", run: "for z in xz 'zstd -q' bzip2 'gzip -n'; do cp f g && $z -f g && rm -f g; done; ls; xz -dc g.xz | cmp - f && zstd -qdc g.zst | cmp - f && gzip -dc g.gz | cmp - f && bzip2 -dc g.bz2 | cmp - f"},
	{name: "sha256sum -c", setup: "echo a >a; echo b >b", run: "sha256sum a b >sums && sha256sum -c sums && echo x >>b; sha256sum --quiet -c sums 2>/dev/null; echo $?"},
	{name: "base64 and od", setup: "printf '\\0\\1\\2abc' >f", run: "base64 f >g && base64 -d g | cmp - f && od -An -tx1 f"},
	{name: "dd", run: "dd if=/dev/zero of=f bs=1k count=10 status=none && printf X | dd of=f bs=1 seek=5000 conv=notrunc status=none && cksum f"},
}
