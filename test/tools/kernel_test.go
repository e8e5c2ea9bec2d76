//go:build linux

package tools

// python runs a script in the task's directory.
func python(script string) string {
	return "python3 - <<'X'\nimport ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\n" + script + "\nX\n"
}

// kernelTasks call the kernel in ways that programs do and shells do not.
var kernelTasks = []task{
	{name: "exchange directories", needs: "python3", setup: "mkdir a b; echo 1 >a/x; echo 2 >b/y", run: python(`
print(l.renameat2(-100, b"a", -100, b"b", 2), os.listdir("a"), os.listdir("b"))
print(l.renameat2(-100, b"a", -100, b"b", 1), ctypes.get_errno())
print(l.renameat2(-100, b"a/y", -100, b"b/x", 2), open("a/y").read())
os.rename("a", "c")`), then: "cat c/* b/*"},
	{name: "names with a slash at the end", needs: "python3", setup: "mkdir d d/e t; echo f >f; ln -s d l; ln -s f lf; ln -s none n", run: python(`
def t(f, *a):
    try: f(*a); print(f.__name__, *a)
    except OSError as e: print(f.__name__, *a, e.errno)
for a, b in ("l/", "x"), ("lf/", "x"), ("n/", "x"), ("f/", "x"), ("f", "x/"), ("l", "x/"), ("d/", "x/"), ("x/", "l/"), ("x", "f/"), ("x/", "t/"): t(os.rename, a, b)
for a, b in ("f/", "y"), ("l/", "y"), ("lf/", "y"), ("f", "y/"), ("f", "t/"), ("l", "y/"): t(os.link, a, b)
for a, b in ("l/", "t"), ("t", "l/"), ("t/", "l"), ("f", "t/"), ("f/", "t"), ("t/", "f/"), ("t/", "f"): print(a, b, l.renameat2(-100, a.encode(), -100, b.encode(), 2), ctypes.get_errno())`), then: "ls -R"},
	{name: "O_TMPFILE and linkat", needs: "python3", run: python(`
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640); os.write(fd, b"hello")
print(l.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, b"named", 0x400), open("named").read())`), then: "cat named; stat -c %a:%h named"},
	{name: "copy_file_range and sendfile", needs: "python3", setup: "seq 50000 >src", run: python(`
a = os.open("src", os.O_RDONLY); b = os.open("dst", os.O_CREAT | os.O_RDWR, 0o644); c = os.open("dst2", os.O_CREAT | os.O_RDWR, 0o644)
while os.copy_file_range(a, b, 1 << 20): pass
print(os.sendfile(c, b, 0, 10 << 20))`) + "cmp src dst && cmp src dst2 && echo same"},
	{name: "holes and ranges", needs: "python3 flock", setup: "truncate -s 1M s; printf x | dd of=s bs=1 seek=500000 conv=notrunc status=none", run: python(`
f = os.open("s", os.O_RDWR); print(os.lseek(f, 0, os.SEEK_DATA) > 0, os.lseek(f, 0, os.SEEK_HOLE))
os.posix_fallocate(f, 0, 2000000); print(os.fstat(f).st_size); os.ftruncate(f, 10)`) + "fallocate -l 64k z && fallocate -z -o 4096 -l 4096 z && fallocate -d z; stat -c %s s z"},
	{name: "removing while listing", needs: "python3", setup: "mkdir d; for i in $(seq 300); do : >d/$i; done", run: python(`
n = 0
for e in os.scandir("d"): os.unlink(e.path); n += 1
print(n, os.listdir("d")); os.rmdir("d")`)},
	{name: "long names and symlink loops", setup: "ln -s a b; ln -s b a; mkdir d; ln -s ../d d/self; ln -s . dot",
		run: "n=$(printf 'n%.0s' $(seq 255)); echo a >$n && mv $n x && mv x $n; ls | tail -n 1 | wc -c; touch m$n 2>/dev/null; echo $?; cat a 2>/dev/null; echo $?; ls d/self/self/self; find -L . 2>/dev/null | sort; cd dot/dot/dot && echo here"},
	{name: "descriptors by a socket, abstract sockets", needs: "python3", run: python(`
import socket
name = "\0tools-%d" % os.getpid()
s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(name); d, _ = s.accept()
f = os.open("f", os.O_CREAT | os.O_RDWR); socket.send_fds(c, [b"x"], [f]); os.write(socket.recv_fds(d, 9, 1)[1][0], b"passed"); print(open("f").read())
e, g = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); e.send(b"q"); print(g.recv(2))
a = socket.socket(); a.setsockopt(1, 15, 1); a.bind(("127.0.0.1", 0)); b = socket.socket(); b.setsockopt(1, 15, 1); b.bind(a.getsockname()); print("shared port")
v = socket.socket(socket.AF_INET6); v.bind(("::1", 0)); v.listen(); socket.create_connection(v.getsockname()[:2]); print("IPv6")`)},
	{name: "pidfd, ptrace, process_vm_readv", needs: "python3", run: python(`
import signal
p = os.fork()
if p == 0:
    signal.pause(); os._exit(0)
fd = os.pidfd_open(p); print(l.ptrace(16, p, 0, 0)); os.waitpid(p, 0x40000000); print(l.ptrace(17, p, 0, 0))
class V(ctypes.Structure): _fields_ = [("b", ctypes.c_void_p), ("l", ctypes.c_size_t)]
b = ctypes.create_string_buffer(b"hello", 8); c = ctypes.create_string_buffer(8)
print(l.process_vm_readv(p, ctypes.byref(V(ctypes.addressof(c), 6)), 1, ctypes.byref(V(ctypes.addressof(b), 6)), 1, 0), c.value)
signal.pidfd_send_signal(fd, 9); print(os.waitpid(p, 0)[1])`)},
	{name: "named semaphores and System V IPC", needs: "python3", run: python(`
n = b"/tools-%d" % os.getpid(); l.sem_open.restype = ctypes.c_void_p
print(bool(l.sem_open(n, os.O_CREAT, 0o600, 1)), l.sem_unlink(n))
q = l.mq_open(n, os.O_CREAT | os.O_RDWR, 0o600, None); b = ctypes.create_string_buffer(9000)
print(q >= 0, l.mq_send(q, b"hi", 2, 0), l.mq_receive(q, b, 9000, None), l.mq_unlink(n))
i = l.shmget(0, 4096, 0o1600); m = l.msgget(0, 0o1600); x = l.semget(0, 1, 0o1600)
print(i >= 0, m >= 0, x >= 0, l.shmctl(i, 0, None), l.msgctl(m, 0, None), l.semctl(x, 0, 0))`)},
	{name: "seccomp and Landlock of one's own", needs: "python3", run: python(`
class F(ctypes.Structure): _fields_ = [("c", ctypes.c_ushort), ("t", ctypes.c_ubyte), ("f", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("f", ctypes.POINTER(F))]
print(l.prctl(38, 1, 0, 0, 0), l.prctl(22, 2, ctypes.byref(P(1, (F * 1)(F(6, 0, 0, 0x7fff0000)))), 0, 0))
b = ctypes.create_string_buffer((8191).to_bytes(8, "little")); fd = l.syscall(444, b, 8, 0); print(fd >= 0, l.syscall(446, fd, 0))
try: open("x", "w")
except OSError as e: print(e.errno)`)},
	{name: "daemons and orphans", needs: "python3", run: python(`
r, w = os.pipe()
print(l.prctl(36, 1, 0, 0, 0))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.read(r, 1); open("late", "w").write("x"); os._exit(7)
    os._exit(1)
first = os.wait()[1]; os.write(w, b"x"); print(first, os.wait()[1])`)},
	{name: "a terminal of one's own", needs: "python3", run: python(`
import pty
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "test -t 0 && stty rows 7 cols 9 && stty size && tty | cut -c1-9"])
b = b""
try:
    while x := os.read(fd, 1024): b += x
except OSError: pass
print(b.split(), os.waitpid(pid, 0)[1])`)},
	{name: "a mapping that two processes share", needs: "python3", setup: "truncate -s 8192 m", run: python(`
import mmap
f = open("m", "r+b"); m = mmap.mmap(f.fileno(), 8192)
if os.fork() == 0:
    m[0:5] = b"child"; m.flush(); os._exit(0)
os.wait(); print(m[0:5], open("m", "rb").read(5))`), then: "head -c 5 m"},
}
