//go:build linux

package tools

const cSetup = "printf 'int f(void);\\nint main(void){return f()-1;}\\n' >main.c; printf 'int f(void){return 1;}\\n' >f.c; "

// buildTasks are about compilers and what drives them.
var buildTasks = []task{
	{name: "cc", needs: "cc", setup: cSetup, run: "cc -o prog main.c f.c && ./prog && echo ran"},
	{name: "make", needs: "make cc", setup: cSetup + "printf 'prog: main.o f.o\\n\\tcc -o $@ $^\\n%%.o: %%.c\\n\\tcc -c -o $@ $<\\nclean:\\n\\trm -f *.o prog\\n' >Makefile", run: "make -sj2 && ./prog && touch f.c && make -q; echo $?; make -s && make -q && echo new", then: "make -q; echo $?"},
	{name: "make clean", needs: "make", setup: "printf 'clean:\\n\\trm -rf out *.o\\n' >Makefile; mkdir -p out/a; touch out/a/b x.o", run: "make -s clean && ls"},
	{name: "make -j with a jobserver", needs: "make", setup: "printf 'all: a b c d\\na b c d:\\n\\techo $@ >$@\\n' >Makefile", run: "make -sj4 && cat a b c d"},
	{name: "cmake", needs: "cmake make cc", slow: true, loose: true, setup: cSetup + "printf 'cmake_minimum_required(VERSION 3.5)\\nproject(p C)\\nadd_executable(prog main.c f.c)\\n' >CMakeLists.txt", run: "cmake -S . -B build >/dev/null && cmake --build build >/dev/null && build/prog && echo ran", then: "cmake --build build | tail -1"},
	{name: "cmake with ninja", needs: "cmake ninja cc", slow: true, loose: true, setup: cSetup + "printf 'cmake_minimum_required(VERSION 3.5)\\nproject(p C)\\nadd_executable(prog main.c f.c)\\ninstall(TARGETS prog DESTINATION bin)\\n' >CMakeLists.txt", run: "cmake -G Ninja -S . -B build >/dev/null && ninja -C build >/dev/null && cmake --install build --prefix $PWD/out >/dev/null && out/bin/prog && echo ran", then: "ninja -C build -n | tail -1"},
	{name: "meson", needs: "meson ninja cc", slow: true, loose: true, setup: cSetup + "printf \"project('p','c')\\nexecutable('prog','main.c','f.c')\\n\" >meson.build", run: "meson setup build >/dev/null && ninja -C build >/dev/null && build/prog && echo ran"},
	{name: "autotools", needs: "autoconf automake make cc m4 perl", slow: true, loose: true, setup: cSetup + "printf 'AC_INIT([p],[1])\\nAM_INIT_AUTOMAKE([foreign])\\nAC_PROG_CC\\nAC_CONFIG_FILES([Makefile])\\nAC_OUTPUT\\n' >configure.ac; printf 'bin_PROGRAMS=prog\\nprog_SOURCES=main.c f.c\\n' >Makefile.am", run: "autoreconf -i >/dev/null 2>&1 && ./configure -q && make -s >/dev/null && ./prog && make -s install DESTDIR=$PWD/out prefix=/usr >/dev/null && out/usr/bin/prog && make -s distclean && echo ran"},
	{name: "bison and flex", needs: "bison flex cc m4", setup: "printf '%%%%token N\\n%%%%{ int yylex(void); void yyerror(const char*s); %%%%}\\n%%%%%%%%\\ns: N;\\n%%%%%%%%\\nvoid yyerror(const char*s){}\\n' | sed 's/%%/%/g' >p.y; printf '%%%%\\n[0-9]+ return 1;\\n%%%%\\nint yywrap(void){return 1;}\\n' >l.l", run: "bison -o p.c p.y && flex -o l.c l.l && ls"},
	{name: "ccache", slow: true, needs: "ccache cc", setup: cSetup, run: "export CCACHE_DIR=$PWD/cc; ccache cc -c f.c -o f.o && rm f.o && ccache cc -c f.c -o f.o && find cc -name stats -delete; find cc -type d -empty -delete; ls f.o", loose: true},
	{name: "ccache with hard links", slow: true, needs: "ccache cc", setup: cSetup + "export CCACHE_DIR=$PWD/cc CCACHE_HARDLINK=1; ccache cc -c f.c -o f.o; rm f.o", run: "export CCACHE_DIR=$PWD/cc CCACHE_HARDLINK=1; ccache cc -c f.c -o f.o && cc main.c f.o -o prog && ./prog && echo ran; find cc -name stats -delete; find cc -type d -empty -delete", loose: true},
	{name: "shared library", slow: true, needs: "cc", setup: cSetup, run: "cc -shared -fPIC -o libf.so f.c && cc -o prog main.c -L. -lf -Wl,-rpath,$PWD && ./prog && ldd prog | grep -c libf"},
	{name: "LD_PRELOAD", slow: true, needs: "cc", setup: "printf 'int getuid(void){return 42;}\\n' >p.c", run: "cc -shared -fPIC -o p.so p.c && LD_PRELOAD=$PWD/p.so id -ru"},
	{name: "sanitizers", slow: true, needs: "cc", setup: "printf '#include <stdlib.h>\\nint main(void){char*p=malloc(4);p[4]=1;return 0;}\\n' >a.c", run: "cc -g -fsanitize=address -o a a.c && ./a 2>&1 | grep -o heap-buffer-overflow | head -1"},
	{name: "thread sanitizer", needs: "cc", slow: true, setup: "printf '#include <pthread.h>\\nint x;void*f(void*p){x++;return 0;}\\nint main(void){pthread_t t;pthread_create(&t,0,f,0);x++;pthread_join(t,0);return 0;}\\n' >a.c", run: "cc -g -fsanitize=thread -o a a.c -lpthread && ./a 2>&1 | grep -o 'data race' | head -1"},
	{name: "strip and objcopy", slow: true, needs: "cc", setup: cSetup + "cc -g -o prog main.c f.c", run: "strip -o s prog && objcopy --only-keep-debug prog d && ./s && nm prog | grep -c ' T f'"},
	{name: "gprof and gcov", slow: true, needs: "cc", setup: cSetup, run: "cc --coverage -o prog main.c f.c && ./prog && ls *.gcda | wc -l", loose: true},
	{name: "g++ and precompiled headers", needs: "g++", slow: true, setup: "echo '#include <vector>' >h.h; printf '#include \"h.h\"\\nint main(){std::vector<int> v{1};return v[0]-1;}\\n' >m.cc", run: "g++ h.h && g++ -Winvalid-pch m.cc -o m && ./m && echo ran", loose: true},
	{name: "gdb", slow: true, needs: "gdb cc", setup: cSetup, run: "cc -g -O0 -o prog main.c f.c && gdb -q -nx -batch -ex 'break f' -ex run -ex bt -ex 'print 1+1' -ex finish -ex continue ./prog 2>&1 | grep -E '^(\\$1|#0|#1|\\[Inferior)' | sed 's/0x[0-9a-f]*//g; s/process [0-9]*//'"},
	{name: "gdb attach", slow: true, needs: "gdb", run: "sleep 30 & gdb -q -nx -batch -p $! -ex 'info threads' 2>&1 | grep -c Thread; kill $!"},
	{name: "strace", needs: "strace", run: "strace -f -e trace=execve -o t sh -c 'true; /bin/true' && grep -c execve t; rm t"},
	{name: "valgrind", needs: "valgrind cc", slow: true, setup: cSetup, run: "cc -g -o prog main.c f.c && valgrind -q --error-exitcode=9 ./prog; echo $?"},
	{name: "setarch -R", needs: "flock", run: "setarch -R true && setarch $(uname -m) --addr-no-randomize sh -c 'echo fine'"},
	{name: "go build", needs: "", slow: true, loose: true, setup: "printf 'module m\\n\\ngo 1.20\\n' >go.mod; printf 'package main\\nfunc main(){println(1)}\\n' >main.go", run: "command -v go >/dev/null || exit 0; GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o out . && ./out 2>&1"},
	{name: "javac and jar", needs: "java javac", slow: true, setup: "printf 'public class A { public static void main(String[] a) { System.out.println(1); } }\\n' >A.java", run: "javac A.java && jar -cf a.jar A.class && java -cp a.jar A", loose: true},
	{name: "Java management beans", needs: "java", slow: true, setup: "printf 'import java.lang.management.*;\\npublic class M { public static void main(String[] a) { var o=(com.sun.management.OperatingSystemMXBean)ManagementFactory.getOperatingSystemMXBean(); System.out.println(o.getTotalMemorySize()>0 && o.getProcessCpuTime()>0); System.out.println(ManagementFactory.getRuntimeMXBean().getVmName().length()>0); } }\\n' >M.java", run: "java M.java"},
}
