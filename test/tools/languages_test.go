//go:build linux

package tools

// languageTasks are about interpreters, their packages and databases.
var languageTasks = []task{
	{name: "python", slow: true, needs: "python3", run: "python3 -c \"import os,json,tempfile,subprocess\njson.dump({'a':1},open('j','w'))\nprint(subprocess.check_output(['cat','j']).decode())\nwith tempfile.NamedTemporaryFile(dir='.') as f: print(os.path.exists(f.name))\""},
	{name: "python multiprocessing", slow: true, needs: "python3", run: "printf 'from multiprocessing import Pool, Lock, Queue, shared_memory\\ndef f(x): return x*x\\nif __name__==\"__main__\":\\n with Pool(2) as p: print(p.map(f,range(5)))\\n s=shared_memory.SharedMemory(create=True,size=10); s.close(); s.unlink(); print(\"shm\")\\n' >m.py && python3 m.py"},
	{name: "python asyncio and sockets", slow: true, needs: "python3", run: "python3 -c \"import asyncio\nasync def main():\n async def h(r,w): w.write(await r.readline()); await w.drain(); w.close()\n s=await asyncio.start_server(h,'127.0.0.1',0)\n r,w=await asyncio.open_connection(*s.sockets[0].getsockname())\n w.write(b'hi\\\\n'); print(await r.readline())\nasyncio.run(main())\""},
	{name: "python venv", slow: true, needs: "python3 python3-venv", setup: "true", run: "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'", then: "env/bin/python -c 'print(1)'"},
	{name: "python venv with pip", needs: "python3 python3-venv", slow: true, loose: true, setup: "true", run: "python3 -m venv env && env/bin/pip --version >/dev/null && echo fine"},
	{name: "pytest", needs: "pytest", slow: true, loose: true, setup: "printf 'def test_a(tmp_path):\\n (tmp_path/\"x\").write_text(\"1\")\\n assert True\\n' >test_a.py", run: "pytest -q 2>&1 | grep -o '1 passed'"},
	{name: "python compileall", slow: true, needs: "python3", loose: true, setup: "echo 'x=1' >a.py", run: "python3 -m compileall -q . && ls"},
	{name: "python os.replace and shutil", slow: true, needs: "python3", setup: "mkdir -p d/e; echo a >d/e/a", run: "python3 -c \"import shutil,os\nshutil.copytree('d','c'); shutil.rmtree('d'); os.replace('c/e/a','b'); print(sorted(os.listdir('.')))\""},
	{name: "python sqlite3", slow: true, needs: "python3", loose: true, run: "python3 -c \"import sqlite3\nc=sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)'); c.execute('insert into t values(1)'); c.commit(); print(c.execute('select * from t').fetchall())\""},
	{name: "sqlite3", needs: "sqlite3", loose: true, setup: "sqlite3 x.db 'create table t(a); insert into t values(1);'", run: "sqlite3 x.db 'pragma journal_mode=wal; insert into t values(2); select sum(a) from t;'", then: "sqlite3 x.db 'select count(*) from t; pragma integrity_check;'"},
	{name: "perl", needs: "perl", setup: "echo a >a", run: "perl -e 'rename \"a\",\"b\" or die; open F,\">>b\"; print F \"x\\n\"; close F; print `cat b`; mkdir \"d\" or die; print -d \"d\"'"},
	{name: "ruby", needs: "ruby", run: "ruby -rfileutils -e 'FileUtils.mkdir_p(\"a/b\"); File.write(\"a/b/c\",\"x\"); FileUtils.cp_r(\"a\",\"z\"); puts Dir[\"**/*\"].sort; fork { puts 1 }; Process.wait'"},
	{name: "lua", needs: "lua5.4", run: "lua5.4 -e 'f=io.open(\"a\",\"w\"); f:write(1); f:close(); os.rename(\"a\",\"b\"); print(io.open(\"b\"):read()); os.remove(\"b\")'"},
	{name: "php", needs: "php", run: "php -r 'file_put_contents(\"a\",\"x\",LOCK_EX); rename(\"a\",\"b\"); echo file_get_contents(\"b\"), PHP_EOL; mkdir(\"d\"); touch(\"d/f\"); unlink(\"d/f\"); rmdir(\"d\");'"},
	{name: "tcl", needs: "tclsh", run: "echo 'file mkdir a; set f [open a/b w]; puts $f x; close $f; puts [glob a/*]' | tclsh"},
	{name: "node", needs: "node", run: "node -e 'const fs=require(\"fs\"); fs.mkdirSync(\"a/b\",{recursive:true}); fs.writeFileSync(\"a/b/c\",\"x\"); fs.cpSync(\"a\",\"z\",{recursive:true}); fs.rmSync(\"a\",{recursive:true}); console.log(fs.readdirSync(\"z/b\")); new Worker(1)' 2>/dev/null; ls"},
	{name: "node worker and server", needs: "node", run: "node -e 'const h=require(\"http\"); const s=h.createServer((q,r)=>r.end(\"ok\")).listen(0,\"127.0.0.1\",()=>h.get({port:s.address().port},r=>r.on(\"data\",d=>{console.log(String(d)); s.close()})))'"},
	{name: "npm init and run", needs: "npm", slow: true, loose: true, setup: "echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"hi\":\"echo hello\"}}' >package.json", run: "npm run -s hi && npm pkg set description=d && npm pkg get description"},
	{name: "node fs.watch", slow: true, needs: "node", setup: "echo a >f", run: "node -e 'const fs=require(\"fs\"); const w=fs.watch(\"f\",()=>{console.log(\"changed\"); w.close()}); setTimeout(()=>fs.appendFileSync(\"f\",\"b\"),50)'"},
	{name: "redis", needs: "redis-server", slow: true, loose: true, run: "redis-server --port 0 --unixsocket $PWD/s --daemonize no --save '' >/dev/null & i=0; while [ ! -S s ] && [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done; redis-cli -s s set a 1; redis-cli -s s get a; redis-cli -s s shutdown nosave; wait"},
	{name: "jq, awk, sed", needs: "jq", setup: "echo '{\"a\":[1,2,3]}' >j", run: "jq -c '.a|map(.*2)' j && awk 'BEGIN{for(i=0;i<3;i++)print i}' >n && paste -sd, n && jq '.b=1' j >k && mv k j && cat j"},
	{name: "bc and dc", needs: "bc dc", run: "echo '2^64' | bc && echo '2 3 + p' | dc"},
	{name: "shellcheck", needs: "shellcheck", setup: "printf '#!/bin/sh\\necho $1\\n' >s.sh", run: "shellcheck -f gcc s.sh | cut -d: -f1,4"},
	{name: "openssl", slow: true, needs: "openssl", loose: true, run: "openssl genrsa -out k.pem 2048 2>/dev/null && openssl req -x509 -new -key k.pem -subj /CN=x -out c.pem 2>/dev/null && openssl verify -CAfile c.pem c.pem"},
	{name: "gpg in the project", needs: "gpg", slow: true, loose: true, run: "export GNUPGHOME=$PWD/g; mkdir -m 700 g && gpg -q --batch --passphrase '' --quick-gen-key a@b default default never 2>/dev/null; echo x >f && gpg -q --batch -s f && gpg -q --batch -d f.gpg 2>/dev/null; gpgconf --kill all; rm -rf g"},
	{name: "ssh-keygen", needs: "ssh-keygen", loose: true, run: "ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -l -f k.pub | cut -d' ' -f1,4 && stat -c %a k"},
}
