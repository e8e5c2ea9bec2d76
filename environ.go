//go:build linux

package nsrun

import (
	"os"
	"slices"
	"strings"
)

// environment is what a command that runs in dir gets. Of the variables of caches those are set
// of which the caller has none.
func (c *Config) environment(q *Request, home, dir string, caches [][]string) []string {
	var env []string
	if c.ClearEnv {
		if v, ok := os.LookupEnv("PATH"); ok {
			env = append(env, "PATH="+v)
		}
	} else {
		env = slices.DeleteFunc(SafeEnv(os.Environ()), func(kv string) bool {
			// Such a directory is not there, or not writable; /tmp is. And this program's
			// working directory is not the command's.
			name, _, _ := strings.Cut(kv, "=")
			return name == "HOME" || name == "TMPDIR" || name == "TMP" || name == "TEMP" || name == "TEMPDIR" ||
				name == "PWD" || name == "OLDPWD"
		})
		env = append(env, "PWD="+dir)
		for _, set := range caches {
			given := slices.ContainsFunc(set, func(kv string) bool {
				name, _, _ := strings.Cut(kv, "=")
				_, given := os.LookupEnv(name)
				_, upper := os.LookupEnv(strings.ToUpper(name)) // npm takes both
				return given || upper
			})
			if !given {
				env = append(env, set...)
			}
		}
	}
	if home != "" {
		env = append(env, "HOME="+home)
	}
	for _, list := range [...][]string{c.Env, q.Env} {
		for _, kv := range list {
			name, _, assigned := strings.Cut(kv, "=")
			if !assigned {
				v, ok := os.LookupEnv(name)
				if !ok {
					continue
				}
				kv = name + "=" + v
			}
			env = append(slices.DeleteFunc(env, func(e string) bool {
				n, _, _ := strings.Cut(e, "=")
				return n == name
			}), kv)
		}
	}
	if env == nil {
		env = []string{}
	}
	return env
}
