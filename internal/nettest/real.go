//go:build linux

package nettest

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// each has a shell do something for each argument, as $h and $p.
func each(body string) string {
	return "for t; do h=${t%:*} p=${t##*:}; { " + body + "\n} || echo refused; done"
}

// clone clones from a URL that is made of $h and $p.
func clone(url string) string { return each("git clone -q " + url + " $HOME/$h && cat $HOME/$h/page") }

// noTelemetry keeps go from starting a process that outlives it.
const noTelemetry = "mkdir -p $HOME/.config/go/telemetry && echo off >$HOME/.config/go/telemetry/mode; "

var programs = []program{
	{name: "curl", needs: []string{"curl"}, serve: servePage, want: "page", script: each("curl -sS -m 20 http://$h:$p/ && echo")},
	{name: "node", needs: []string{"node"}, serve: servePage, want: "page", script: `node -e '
(async () => {
	for (const t of process.argv.slice(1))
		await fetch("http://" + t + "/").then(r => r.text()).then(console.log, () => console.log("refused"));
})()' "$@"`},
	{name: "git http", needs: []string{"git"}, serve: serveDumbGit, want: "page", script: clone("http://$h:$p/repo.git")},
	{name: "git https", needs: []string{"git"}, serve: serveGit, want: "page", script: clone("https://$h:$p/repo.git")},
	{name: "git ssh", needs: []string{"git", "ssh", "sshd", "ssh-keygen"}, serve: serveSSH, want: "page", script: clone("ssh://git@$h:$p$REPO")},
	{name: "go", needs: []string{"go"}, serve: serveModules, want: "page", script: noTelemetry + each(`d=$HOME/$h && mkdir $d && cd $d &&
printf 'module m\n\ngo 1.21\n\nrequire example.test/dep v1.0.0\n' >go.mod &&
GOPROXY=http://$h:$p GOMODCACHE=$d/mod GOCACHE=$d/cache go mod download && cat $d/mod/example.test/dep@v1.0.0/page`)},
	{name: "psql", needs: []string{"psql"}, serve: servePostgres, want: "page", script: each(
		`psql -w "host=$h port=$p user=u dbname=d sslmode=disable gssencmode=disable connect_timeout=20" -c '' 2>&1 | grep -o page`)},
	{name: "java", needs: []string{"java"}, serve: serveJava, want: "page", script: `http_proxy=http://127.0.0.1:9 java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData "$MAIN" "$@"`},
	{name: "dig", needs: []string{"dig"}, serve: serveNames, want: `"page"`, script: each("dig +short +tries=1 +time=3 @$h -p $p page.test TXT | grep -x '\"page\"'")},
	{name: "dig tcp", needs: []string{"dig"}, serve: serveNames, want: `"page"`, script: each("dig +tcp +short +tries=1 +time=3 @$h -p $p page.test TXT | grep -x '\"page\"'")},
	// As programs for HTTP/3 do: connected, and several messages in one call.
	{name: "udp", needs: []string{"python3"}, serve: servePackets, want: "page page", script: `python3 -c '
import socket, sys
for t in sys.argv[1:]:
    try:
        a = (t.split(":")[0], int(t.split(":")[1]))
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(10)
        s.sendto(b"page", a)
        one = s.recv(9).decode()
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(10)
        s.connect(a)
        s.sendmsg([b"pa", b"ge"], [(socket.IPPROTO_UDP, 103, (1200).to_bytes(2, sys.byteorder))])
        print(one, s.recv(9).decode())
    except OSError:
        print("refused")' "$@"`},
}

func serveHTTP(t testing.TB, l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		running.Wait()
	})
}

func serveConns(t testing.TB, l net.Listener, f func(net.Conn)) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
}

func servePage(t testing.TB, s *service) []string {
	serveHTTP(t, s.conns, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }))
	return nil
}

// must runs a program that prepares a service.
func must(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	c := exec.Command(lookPath(name), args...)
	c.Dir = dir
	c.Env = []string{"PATH=" + strings.Join(path, ":"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.test",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.test"}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func (s *service) write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return s.file(name)
}

// repository makes one with a page in it.
func (s *service) repository(t testing.TB) string {
	t.Helper()
	must(t, s.dir, "git", "init", "-q", "-b", "main", "work")
	s.write(t, "work/page", "page\n")
	must(t, s.file("work"), "git", "add", "page")
	must(t, s.file("work"), "git", "commit", "-qm", "page")
	must(t, s.dir, "git", "clone", "-q", "--bare", "work", "repo.git")
	must(t, s.file("repo.git"), "git", "update-server-info")
	return s.file("repo.git")
}

// gitEnv are what git needs to be told in every case.
func gitEnv(more ...string) []string {
	return append(more, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
}

// serveDumbGit serves files, of which git finds its way by itself.
func serveDumbGit(t testing.TB, s *service) []string {
	s.repository(t)
	serveHTTP(t, s.conns, http.FileServer(http.Dir(s.dir)))
	return gitEnv()
}

// serveGit has git's own program for web servers answer, over TLS.
func serveGit(t testing.TB, s *service) []string {
	s.repository(t)
	libexec, err := exec.Command(lookPath("git"), "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	cert, ca := certificate(t, s)
	serveHTTP(t, tls.NewListener(s.conns, &tls.Config{Certificates: []tls.Certificate{cert}}), &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + s.dir},
	})
	return gitEnv("GIT_SSL_CAINFO=" + ca)
}

// certificate makes one for the service's names, and the file of who signed it.
func certificate(t testing.TB, s *service) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{allowedName, deniedName}, IPAddresses: []net.IP{s.addr().Addr().AsSlice()},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca := s.write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

// serveSSH has an sshd of the test's own user for each connection, in a world in which that user is called git
// and has a shell.
func serveSSH(t testing.TB, s *service) []string {
	repo := s.repository(t)
	for _, name := range []string{"host", "user"} {
		must(t, s.dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.file(name))
	}
	passwd := s.write(t, "passwd", fmt.Sprintf("git:x:%d:%[1]d::%s:/bin/sh\n", sshUser, s.dir))
	config := s.write(t, "sshd_config", "HostKey "+s.file("host")+"\nAuthorizedKeysFile "+s.file("user.pub")+
		"\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n")
	serveConns(t, s.conns, func(conn net.Conn) {
		f, err := conn.(*net.TCPConn).File()
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		c := exec.Command("/proc/self/exe", passwd, lookPath("sshd"), "-i", "-e", "-f", config)
		c.Env = []string{ProbeEnv + "=" + renamer, "PATH=" + strings.Join(path, ":"), "GORACE=atexit_sleep_ms=0"}
		c.Stdin, c.Stdout = f, f
		var said bytes.Buffer
		c.Stderr = &said
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: sshUser, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: sshUser, HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		}
		if err := c.Run(); err != nil && t.Failed() {
			t.Logf("sshd: %v\n%s", err, said.Bytes())
		}
	})
	return gitEnv("REPO="+repo, "GIT_SSH_COMMAND=ssh -F none -i "+s.file("user")+
		" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=20")
}

// sshUser is the number of the user that git logs in as.
const sshUser = 1000

// rename goes on as another program, for which another file is /etc/passwd.
func rename(args []string) error {
	if err := unix.Mount(args[0], "/etc/passwd", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", args[0], err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	os.Unsetenv(ProbeEnv)
	return syscall.Exec(args[1], args[1:], os.Environ())
}

func serveModules(t testing.TB, s *service) []string {
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	const mod = "module example.test/dep\n"
	for name, text := range map[string]string{"go.mod": mod, "page": "page\n"} {
		f, err := w.Create("example.test/dep@v1.0.0/" + name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	serveHTTP(t, s.conns, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch filepath.Ext(r.URL.Path) {
		case ".info":
			fmt.Fprint(w, `{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}`)
		case ".mod":
			fmt.Fprint(w, mod)
		case ".zip":
			_, _ = w.Write(z.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	return []string{"GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GONOSUMDB=*", "GOTOOLCHAIN=local", "GOENV=off"}
}

// servePostgres refuses all clients, in PostgreSQL's words.
func servePostgres(t testing.TB, s *service) []string {
	serveConns(t, s.conns, func(c net.Conn) {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:]))-4); err != nil {
			return
		}
		const fields = "SFATAL\x00VFATAL\x00C28000\x00Mpage\x00\x00"
		_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, 4+uint32(len(fields))), fields...))
	})
	return nil
}

func serveJava(t testing.TB, s *service) []string {
	servePage(t, s)
	return []string{"MAIN=" + s.write(t, "Main.java", `import java.net.URI;
import java.net.http.*;

public class Main {
	public static void main(String[] targets) throws Exception {
		HttpClient client = HttpClient.newHttpClient();
		for (String t : targets) {
			try {
				HttpRequest r = HttpRequest.newBuilder(URI.create("http://" + t + "/")).build();
				System.out.println(client.send(r, HttpResponse.BodyHandlers.ofString()).body());
			} catch (java.io.IOException e) {
				System.out.println("refused");
			}
		}
	}
}
`)}
}

// serveNames is a DNS server that is not the resolver.
func serveNames(t testing.TB, s *service) []string {
	h := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"page"}}}
		_ = w.WriteMsg(m)
	})
	serveDNS(t, &dns.Server{PacketConn: s.packets, Handler: h}, &dns.Server{Listener: s.conns, Handler: h})
	return nil
}

// servePackets sends back what comes.
func servePackets(t testing.TB, s *service) []string {
	var running sync.WaitGroup
	running.Go(func() {
		b := make([]byte, 2048)
		for {
			n, from, err := s.packets.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = s.packets.WriteTo(b[:n], from)
		}
	})
	t.Cleanup(func() {
		s.packets.Close()
		running.Wait()
	})
	return nil
}
