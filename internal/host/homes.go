//go:build linux

package host

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// Homes are the home directories of the caller: the one that /etc/passwd has for
// its effective user id, and $HOME if that is another one.
func Homes() []string {
	var homes []string
	if home := homedir.Passwd(); home != "" {
		homes = append(homes, home)
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		if home = filepath.Clean(home); !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return homes
}

// Home is the home directory of commands: $HOME, else the one in /etc/passwd. Empty: there is none.
func Home() string {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Clean(home)
	}
	if homes := Homes(); len(homes) > 0 {
		return homes[0]
	}
	return ""
}

// HomeAt resolves the symbolic links of a home directory, and returns its mode, as far as another directory can have
// it.
func HomeAt(home string) (at string, perm os.FileMode, err error) {
	at, fi, err := homeAt(home)
	if err != nil {
		return "", 0, err
	}
	return at, homePerm(fi), nil
}

func homeAt(home string) (at string, fi os.FileInfo, err error) {
	if at, err = linkless(home); err != nil {
		return "", nil, &plan.Error{Op: "open home directory", Path: home, Err: sys.Bare(err)}
	}
	fi, err = os.Stat(at)
	return at, fi, err
}

func homePerm(fi os.FileInfo) os.FileMode { return fi.Mode() & (os.ModePerm | os.ModeSticky) }

// OtherHome is the home directory that /etc/passwd has for the caller, if $HOME is another one, and its mode. It must
// belong to the caller: system users have /usr/sbin and the like. Empty: there is none.
func OtherHome(home string) (at string, perm os.FileMode) {
	homes := Homes()
	if len(homes) < 2 {
		return "", 0
	}
	at, fi, err := homeAt(homes[0])
	if err != nil || at == home || !fi.IsDir() || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return "", 0
	}
	return at, homePerm(fi)
}

// PrivatePlaces reports which of the private places that not every system has are directories here.
func PrivatePlaces() (varTmp, run bool) { return IsDir("/var/tmp"), IsDir("/run") }

// DataDir is where nsrun keeps data, empty if there is no place for it.
func DataDir(home string) string { return homedir.Data(home) }

// CacheDir is where nsrun keeps copies.
func CacheDir(home string) string { return homedir.Cache(home) }
