//go:build linux

package tools

const (
	pgPath = "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)\n"
	pgUp   = "pg_ctl -D db -w -l log -o \"-k $PWD -h '' -p 28940\" start >/dev/null\n"
	pgAsk  = "psql -h $PWD -p 28940 -U me postgres -qAtc "
	pgDown = "pg_ctl -D db -w -m fast stop >/dev/null\n"
)

// serverTasks have servers, other version controls, editors and package managers: programs that keep more than files.
var serverTasks = []task{
	{name: "postgres", slow: true, who: "user", needs: "pg_ctlcluster psql", loose: true, setup: pgPath + "initdb -D db -A trust -U me >/dev/null\n" + pgUp + pgAsk + "'create table t(x int primary key); insert into t select generate_series(1,1000)'\n" + pgDown,
		run:  pgPath + pgUp + pgAsk + "'update t set x=x+5000'\n" + pgAsk + "'vacuum full'\n" + pgAsk + "'create database two'\n" + pgDown + "echo $?",
		then: pgPath + pgUp + pgAsk + "'select max(x), count(*) from t'\n" + pgDown},
	{name: "nginx", slow: true, who: "user", needs: "nginx curl", loose: true, setup: `mkdir html; echo page >html/index.html; cat >conf <<X
pid $PWD/pid; worker_processes 2; events {}
http { access_log off; client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3; uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
 server { listen unix:$PWD/s; root $PWD/html; } server { listen unix:$PWD/front; location / { proxy_pass http://unix:$PWD/s; } } }
X
`, run: "nginx -p $PWD -c $PWD/conf -e $PWD/err && curl -s --unix-socket front http://x/ && nginx -p $PWD -c $PWD/conf -e $PWD/err -s quit && while [ -e pid ]; do sleep 0.05; done; rm -f s front; ls"},
	{name: "php's server", slow: true, needs: "php curl", setup: "echo '<?php echo PHP_SAPI, \"\\n\";' >index.php", run: "php -S 127.0.0.1:28980 >/dev/null 2>&1 & curl -s --retry 40 --retry-connrefused --retry-max-time 60 http://127.0.0.1:28980/; kill $!"},
	{name: "subversion with renamed directories", slow: true, needs: "svn", loose: true, setup: "svnadmin create r; svn co -q file://$PWD/r wc; cd wc; mkdir -p d/e; echo a >d/e/a; svn add -q d; svn ci -qm 1; svn up -q",
		run: "cd wc; svn mv -q d x; svn st | sort; svn ci -qm 2; svn up -q; ls; svn cp -q x y; svn ci -qm 3; svn rm -q x; svn revert -qR x; ls", then: "cd wc; svn st; svnadmin verify -q ../r; echo $?"},
	{name: "fossil", slow: true, needs: "fossil", loose: true, run: "export USER=a; fossil init r.fossil >/dev/null && mkdir co && cd co && fossil open ../r.fossil >/dev/null && echo a >a && fossil add a >/dev/null && fossil commit -m 1 --no-warnings >/dev/null 2>&1; fossil mv --hard a b >/dev/null; fossil commit -m 2 --no-warnings >/dev/null 2>&1; ls",
		then: "cd co && fossil changes; ls"},
	{name: "git worktree lock and repair", slow: true, needs: "git", setup: gitSetup + "git worktree add -q wt\n", run: "git worktree lock wt; git worktree move wt w2 2>/dev/null; echo $?; git worktree unlock wt; git worktree move wt w2; ls; mv w2 w3; git worktree repair w3 2>/dev/null; git -C w3 status --short; git worktree list | wc -l",
		then: "git -C w3 log --format=%s; git fsck"},
	{name: "git submodule deinit and mv", slow: true, needs: "git", setup: "git init -q lib; (cd lib; echo l >l; git add l; git commit -qm l); git init -q app; cd app; git submodule --quiet add ../lib sub; git commit -qm s",
		run: "cd app; git submodule deinit -f sub >/dev/null; ls sub; git submodule --quiet update --init; cat sub/l; git mv sub moved && git status --short && git commit -qm m; git rm -q moved; git status --short", then: "cd app; git fsck; git status --short"},
	{name: "7z", slow: true, needs: "7z", setup: "mkdir d; echo a >d/a; ln -s a d/l", run: "7z a -bd -snl x.7z d >/dev/null && rm -r d && 7z x -bd -snl x.7z >/dev/null && cat d/a && readlink d/l && 7z t x.7z >/dev/null && rm x.7z && ls"},
	{name: "tar with snapshots", slow: true, setup: "mkdir d; echo a >d/a; truncate -s 1M d/s", run: "tar -cf a.tar -g snap d; echo b >d/b; rm d/a; tar -cf b.tar -g snap d; tar -tf b.tar; mkdir out; tar -xf a.tar -C out -g /dev/null; tar -xf b.tar -C out -g /dev/null; ls out/d; rm snap *.tar"},
	{name: "emacs", slow: true, needs: "emacs", setup: `printf '(make-directory "~/.emacs.d/x" t) (find-file "g") (insert "abc") (save-buffer) (find-file "g") (insert "d") (save-buffer)' >a.el`, run: "emacs -Q --batch -l a.el 2>/dev/null; cat g; emacs -Q --batch -f batch-byte-compile a.el 2>/dev/null; ls", loose: true},
	{name: "vim with undo and swap files in the home directory", slow: true, needs: "vim", setup: "echo one >f", run: "vim -es -N -u NONE -c 'set undofile undodir=~/.vim/undo backup' -c 'call mkdir($HOME.\"/.vim/undo\",\"p\")' -c '%s/one/two/' -c wq f; cat f f~; ls ~/.vim/undo | wc -l"},
	{name: "expect", slow: true, needs: "expect", run: `expect -c 'set timeout 60; spawn sh -i; send "stty size; echo done-\$((1+1))\r"; expect "done-2"; puts OK; send "exit\r"; expect eof' | grep -c OK`},
	{name: "gdb with threads and watchpoints", slow: true, needs: "gdb cc", setup: `printf '#include <pthread.h>\nint g=1;\nvoid*f(void*p){g++;return 0;}\nint main(){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);return g;}\n' >a.c; cc -g -O0 -pthread -o a a.c`,
		run: "gdb -q -nx -batch -ex 'watch g' -ex run -ex c ./a 2>&1 | grep -E '^(Old|New) value'; gdb -q -nx -batch -ex 'break f' -ex run -ex 'generate-core-file c' ./a 2>&1 | grep -c 'Saved core'; gdb -q -nx -batch -ex 'p g' ./a c 2>&1 | grep '^\\$1'; rm c"},
	{name: "callgrind and massif", slow: true, needs: "valgrind cc", setup: "printf '#include <stdlib.h>\\nint main(){malloc(10);return 0;}' >a.c; cc -g -o a a.c", run: "valgrind --tool=callgrind --callgrind-out-file=cg ./a 2>/dev/null; head -n 1 cg; valgrind --tool=massif --massif-out-file=ms ./a 2>/dev/null; ls; rm cg ms"},
	{name: "a gem", slow: true, needs: "ruby", loose: true, setup: `printf 'Gem::Specification.new{|s| s.name="x"; s.version="1"; s.summary="x"; s.authors=["a"]; s.files=["lib/x.rb"]}\n' >x.gemspec; mkdir lib; echo 'puts 5' >lib/x.rb`, run: "gem build x.gemspec 2>/dev/null | grep -c Successfully; gem install --user-install --local --no-document x-1.gem 2>&1 | grep -c installed; ruby -e 'require \"x\"'"},
	{name: "a Perl module", slow: true, needs: "perl make", loose: true, setup: "mkdir -p M/lib M/t; cd M; printf 'use ExtUtils::MakeMaker; WriteMakefile(NAME=>\"M\",VERSION=>1);' >Makefile.PL; printf 'package M; our $VERSION=1; sub f{7} 1;' >lib/M.pm; printf 'use Test::More tests=>1; use M; is(M::f(),7);' >t/a.t",
		run: "cd M; perl Makefile.PL >/dev/null 2>&1 && make -s >/dev/null && make -s test 2>/dev/null | tail -n 1; prove -l t | tail -n 1; make -s INSTALL_BASE=$HOME/perl5 pure_install DESTDIR=$PWD/out >/dev/null 2>&1; ls"},
	{name: "go with a module, vet, test, install", slow: true, loose: true, setup: `printf 'module example.org/m\n\ngo 1.20\n' >go.mod; mkdir sub; printf 'package sub\n\nfunc F() int { return 3 }\n' >sub/s.go; printf 'package sub\n\nimport "testing"\n\nfunc TestF(t *testing.T) { if F() != 3 { t.Fatal(t.TempDir()) } }\n' >sub/s_test.go; printf 'package main\n\nimport "example.org/m/sub"\n\n//go:generate touch gen\nfunc main() { print(sub.F()) }\n' >main.go`,
		run: "command -v go >/dev/null || exit 0; export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local; go build -o x . && ./x 2>&1; go vet ./...; go test -cover ./sub | grep -o 'coverage: [0-9.]*'; go generate; GOBIN=$PWD/bin go install . && ls bin; go work init . && go build ./... && ls"},
	{name: "composer", slow: true, needs: "composer php", loose: true, setup: `echo '{"name":"a/b","require":{},"autoload":{"psr-4":{"A\\":"src/"}}}' >composer.json; mkdir src; echo '<?php namespace A; class B { static function f() { return 3; } }' >src/B.php`, run: "export COMPOSER_ALLOW_SUPERUSER=1; composer -q -n dump-autoload; php -r 'require \"vendor/autoload.php\"; echo A\\B::f(),\"\\n\";'; ls"},
	{name: "a bus of one's own", slow: true, needs: "dbus-run-session", run: "dbus-run-session -- dbus-send --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames 2>/dev/null | grep -c 'org.freedesktop.DBus\"'"},
}
