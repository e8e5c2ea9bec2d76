//go:build linux

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

// placeText writes a Place as one line: what a command can do there, why it cannot do more, and which flag would change
// that.
func placeText(p Place) string {
	var list []string
	if p.Read {
		list = append(list, "read")
	}
	if p.Connect {
		list = append(list, "connect")
	}
	if p.Writing != NoWriting {
		list = append(list, [...]string{Apart: "apart", InPlace: "in place", Temporary: "temporary"}[p.Writing])
	}
	causes := [...]string{
		HostCause: "host", ShownCause: "shown", GitCause: "git", SecretCause: "secret", SocketCause: "socket",
		BlockedCause: "blocked", PrivateCause: "private", StrictCause: "strict", NetworkCause: "network", OwnCause: "own", PrivilegeCause: "privilege", NobodyCause: "nobody",
	}
	if p.Cause != NoCause {
		list = append(list, fmt.Sprintf("%s %s", causes[p.Cause], p.At))
	}
	for _, f := range []Flag{p.ReadWith, p.WriteWith, p.ConnectWith} {
		if f != (Flag{}) {
			list = append(list, f.Name+" "+f.Path)
		}
	}
	return strings.Join(list, ", ")
}

// TestWhy asks about paths in sandboxes with all that there can be in one.
func TestWhy(t *testing.T) {
	there := OnHost{Exists: true}
	missing := func(parent string) OnHost { return OnHost{Nearest: parent} }
	socket := OnHost{Exists: true, Socket: true}

	full := session(me(), "/home/me/src")
	full.Secrets, full.Sockets = []string{"/home/me/.ssh", "/etc/shadow", "/srv/key"}, []string{"/opt/db.sock", "/home/me/src/dev.sock", "/run/host.sock"}
	full.Absent = []Absent{{".netrc", 6}, {".config/gh", 7}}
	full.Caches = mounts.Plan{mounts.TmpOverlay("/home/me/.cache", "/home/me/.cache")}
	full.Folders.Blocked = []string{"/data/private"}
	full.Shown = mounts.Plan{mounts.ROBind("/data/shown", "/data/shown")}
	full.Builds = mounts.Plan{mounts.Bind("/home/me/go/pkg", "/home/me/go/pkg")}
	full.Rules = []Rule{
		{Access: Write, Found: []Found{{At: "/srv", Bind: mounts.Bind("/srv", "/srv")}}, Git: mounts.Plan{mounts.ROBind("/srv/r/.git", "/srv/r/.git")}},
		{Access: Block, Found: []Found{{At: "/opt"}, {At: "/home/me/src/.env"}}},
	}
	full.Paths = []Rule{{Access: Show, Found: []Found{{At: "/opt/a", Bind: mounts.ROBind("/opt/a", "/opt/a")}, {At: "/home/me/.ssh/known_hosts", Bind: mounts.ROBind("/home/me/.ssh/known_hosts", "/home/me/.ssh/known_hosts")}}}}
	full.Unix = mounts.Plan{mounts.ROBind("/run/agent.sock", "/run/agent.sock")}
	full.Network = mounts.Plan{mounts.Data("/etc/resolv.conf", nil).RO()}

	inPlace := me()
	inPlace.Folders = Folders{Direct: []string{"/home/me/src"}, Project: "/home/me/src"}
	inPlace.InPlace = mounts.Plan{mounts.Bind("/home/me/src", "/home/me/src"), mounts.ROBind("/home/me/src/.git", "/home/me/src/.git")}

	mirrored := me()
	mirrored.Playground.Mirror = mounts.Plan{
		mounts.Tmpfs("/home/me"), mounts.ROBind("/home/me/src", "/home/me/src").Try(),
		mounts.Bind(mirrored.Playground.Dir, "/home/me/playground"), mounts.Remount("/home/me"),
	}

	strict := session(me(), "/home/me/src")
	strict.System = mounts.Plan{mounts.ROBind("/usr", "/usr"), mounts.Symlink("usr/bin", "/bin")}

	kept := me()
	kept.Kept = []Own{{Dir: "/etc/nsrun", At: "/etc"}, {Dir: "/opt/nsrun", At: "/opt/nsrun"}}

	for _, c := range []struct {
		facts  Facts
		policy Policy
		path   string
		on     OnHost
		want   string
	}{
		// The host.
		{full, Policy{}, "/", there, "read, host /"},
		{full, Policy{}, "/usr/bin/make", there, "read, host /, --rw /usr/bin/make"},
		{full, Policy{}, "/usr/new/file", missing("/usr"), "read, host /, --rw /usr"},
		{full, Policy{}, "/new", missing("/"), "read, host /"},
		{full, Policy{}, "/usr/mine", OnHost{Exists: true, NoWrite: true}, "read, host /"},
		{full, Policy{}, "/sys/power", there, "read, host /"},
		{full, Policy{}, "/root/x", OnHost{Exists: true, NoRead: true, NoWrite: true}, "read, host /"},
		{full, Policy{}, "/var/other", OnHost{Exists: true, NoRead: true, Root: true}, "privilege /var/other, --own-ids --ro /var/other"},
		{full, Policy{}, "/var/other", OnHost{Exists: true, NoWrite: true, Root: true}, "read, host /, --own-ids --rw /var/other"},
		{full, Policy{}, "/var/other", OnHost{Exists: true, NoWrite: true, Root: true, Fixed: true}, "read, host /"},
		{full, Policy{}, "/var/other", OnHost{Exists: true, NoWrite: true}, "read, host /"},
		{full, Policy{OwnIDs: true}, "/var/other", OnHost{Exists: true, NoWrite: true, Root: true}, "read, host /, --rw /var/other"},
		{full, Policy{OwnIDs: true}, "/var/other", OnHost{Exists: true, NoRead: true, Root: true, Closed: true}, "nobody /var/other, --ro /var/other, --rw /var/other"},
		{full, Policy{OwnIDs: true}, "/var/mine", OnHost{Exists: true, Root: true, Closed: true}, "nobody /var/mine, --ro /var/mine, --rw /var/mine"},
		{full, Policy{OwnIDs: true}, "/var/open", OnHost{Exists: true, Root: true}, "read, host /, --rw /var/open"},
		{full, Policy{OwnIDs: true}, "/srv/other", OnHost{Exists: true, NoRead: true, NoWrite: true, Root: true, Closed: true}, "read, in place"},
		{full, Policy{OwnIDs: true}, "/home/me/src/f", OnHost{Exists: true, NoWrite: true, Root: true}, "read, apart"},
		// Private places.
		{full, Policy{}, "/tmp/file", there, "temporary, private /tmp, --ro /tmp/file"},
		{full, Policy{}, "/tmp/file", missing("/tmp"), "temporary, private /tmp"},
		{full, Policy{}, "/run/user/7/bus", socket, "temporary, private /run, --allow-unix /run/user/7/bus"},
		{full, Policy{}, "/dev/kvm", there, "temporary, private /dev"},
		{full, Policy{}, "/dev/kvm", OnHost{Exists: true, Device: "kvm"}, "temporary, private /dev, --device kvm"},
		{full, Policy{}, "/dev/kvm", OnHost{Exists: true, Device: "kvm", NoRead: true}, "temporary, private /dev"},
		{full, Policy{}, "/dev/null", OnHost{Exists: true, Device: "/dev/null"}, "read, in place"},
		{strict, Policy{Strict: true}, "/dev/null", there, "read, in place"},
		{full, Policy{}, "/dev/ptmx", there, "temporary, private /dev"},
		{strict, Policy{Strict: true}, "/dev/kvm", OnHost{Exists: true, Device: "kvm"}, "temporary, private /dev, --device kvm"},
		{full, Policy{}, "/proc/sys/x", there, "private /proc"},
		{full, Policy{}, "/etc/resolv.conf", there, "read, network /etc/resolv.conf"},
		// The home directory.
		{full, Policy{Playground: true}, "/home/me/notes", there, "read, host /home/me, --rw /home/me/notes"},
		{full, Policy{Playground: true}, "/home/me/new", missing("/home/me"), "read, host /home/me"},
		{full, Policy{Playground: true}, "/home/me/.netrc", there, "secret /home/me/.netrc, --ro /home/me/.netrc, --rw /home/me/.netrc"},
		{full, Policy{Playground: true}, "/home/me/playground/x", there, "read, in place"},
		{full, Policy{}, "/home/me/.cache/pip/x", there, "read, temporary"},
		{full, Policy{}, "/home/me/go/pkg/mod", there, "read, in place"},
		{mirrored, Policy{Playground: true, NoHomeOverlay: true}, "/home/me/new", missing("/home/me"), "host /home/me"},
		{mirrored, Policy{Playground: true, NoHomeOverlay: true}, "/home/me/src/f", there, "read, host /home/me/src, --rw /home/me/src/f"},
		// Secrets, sockets, and what is nsrun's.
		{full, Policy{}, "/home/me/.ssh/id", there, "secret /home/me/.ssh, --ro /home/me/.ssh/id, --rw /home/me/.ssh/id"},
		{full, Policy{}, "/home/me/.ssh/known_hosts", there, "read, shown /home/me/.ssh/known_hosts, --rw /home/me/.ssh/known_hosts"},
		{full, Policy{}, "/etc/shadow", OnHost{Exists: true, NoRead: true, NoWrite: true}, "secret /etc/shadow"},
		{full, Policy{}, "/srv/key", there, "secret /srv/key, --ro /srv/key, --rw /srv/key"},
		{full, Policy{}, "/home/me/src/dev.sock", socket, "read, apart, --allow-unix /home/me/src/dev.sock"},
		{inPlace, Policy{}, "/run/agent.sock", socket, "temporary, private /run, --allow-unix /run/agent.sock"},
		{full, Policy{}, "/run/agent.sock", socket, "read, connect"},
		{full, Policy{}, "/home/me/.cache/nsrun/x", there, "temporary, own /home/me/.cache/nsrun"},
		{full, Policy{}, "/home/me/.local", there, "read, host /"},
		// Folders and rules.
		{full, Policy{}, "/home/me/src/main.go", there, "read, apart"},
		{full, Policy{}, "/home/me/src/new/file", missing("/home/me/src"), "read, apart"},
		{full, Policy{}, "/home/me/src/.env", there, "blocked /home/me/src/.env, --ro /home/me/src/.env, --rw /home/me/src/.env"},
		{full, Policy{}, "/data/private/x", there, "blocked /data/private, --ro /data/private/x, --rw /data/private/x"},
		{full, Policy{}, "/data/shown/x", there, "read, shown /data/shown, --rw /data/shown/x"},
		{full, Policy{}, "/srv/file", there, "read, in place"},
		{full, Policy{}, "/srv/other", OnHost{Exists: true, NoWrite: true, Root: true}, "read, privilege /srv/other, --own-ids "},
		{full, Policy{}, "/srv/r/.git/config", there, "read, git /srv/r/.git, --rw /srv/r/.git"},
		{full, Policy{}, "/opt/b", there, "blocked /opt, --ro /opt/b, --rw /opt/b"},
		{full, Policy{}, "/opt/a/b", there, "read, shown /opt/a, --rw /opt/a/b"},
		{inPlace, Policy{}, "/home/me/src/main.go", there, "read, in place"},
		{inPlace, Policy{}, "/home/me/src/.git/index", there, "read, git /home/me/src/.git, --rw /home/me/src/.git"},
		{strict, Policy{Strict: true}, "/usr/bin/make", there, "read, host /usr, --rw /usr/bin/make"},
		{strict, Policy{Strict: true}, "/etc/hosts", there, "strict /, --ro /etc/hosts, --rw /etc/hosts"},
		{strict, Policy{Strict: true}, "/new", missing("/"), "strict /"},
		{strict, Policy{Strict: true}, "/home/me/src/f", there, "read, apart"},
		{kept, Policy{}, "/etc/new", missing("/etc"), "read, host /"}, // --rw would be refused
		{kept, Policy{}, "/etc/hosts", there, "read, host /, --rw /etc/hosts"},
		{kept, Policy{}, "/opt/nsrun/config.toml", there, "read, host /"},
		{Facts{}, Policy{}, "/any", there, "read, host /, --rw /any"},
	} {
		s, _, err := Build(c.facts, c.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := placeText(s.Why(c.path, c.on)); got != c.want {
			t.Errorf("%s, %+v:\n%s, want\n%s", c.path, c.on, got, c.want)
		}
	}
	if got := placeText((&Sandbox{}).Why("/x", there)); got != "" {
		t.Errorf("without mounts: %s", got)
	}
}
