package config

import (
	"strings"
	"testing"
)

// change is a setting in a project's file that nobody trusts, over what the user's file says, if it says anything.
type change struct{ user, project string }

// untrusted has, for each key, what a project must not change, and what it may. Whether a change lets commands do more
// is written down here by hand: it must not follow from the code that decides it.
var untrusted = map[string]struct{ refused, allowed []change }{
	"enabled": {[]change{{"", "false"}}, []change{{"false", "true"}}},
	"mode":    {[]change{{"", "'preferred'"}, {"'preferred'", "'disabled'"}}, []change{{"'preferred'", "'required'"}, {"'disabled'", "'preferred'"}}},
	// Where there is only the other backend, a command of a user who prefers a sandbox would have none.
	"backend":         {[]change{{"", "'landlock'"}, {"", "'native'"}, {"'landlock'", "'native'"}, {"'native'", "'auto'"}}, nil},
	"isolate_network": {[]change{{"", "false"}}, []change{{"false", "true"}}},
	"isolate_pids":    {nil, []change{{"", "true"}}},
	"presets": {[]change{{"", "['build']"}, {"", "['npm']"}, {"", "['git']"}, {"", "['browser']"}, {"", "['workspace-root']"}, {"", "['test']"}, {"['strict']", "[]"},
		{"['test']", "[]"}, {"['workspace-root']", "['strict']"}}, []change{{"", "['strict']"}, {"['build', 'npm']", "['build']"}}},
	"rw_paths":        {[]change{{"", "['/a']"}, {"['/a/b']", "['/a']"}}, []change{{"['/a', '/b']", "['/b']"}}},
	"extra_rw_paths":  {[]change{{"", "['/a']"}}, nil},
	"ro_paths":        {[]change{{"", "['/a']"}, {"['/a']", "[]"}}, nil}, // it shows, and keeps from writing
	"extra_ro_paths":  {[]change{{"", "['/a']"}}, nil},
	"blocked_paths":   {[]change{{"['/a']", "['!/a']"}}, []change{{"", "['/a']"}, {"['/b']", "['/a']"}}},
	"protected_paths": {nil, []change{{"", "['a']"}, {"['b']", "['a']"}}},
	"block_existing":  {[]change{{"", "true"}}, []change{{"true", "false"}}},
	"home":            {[]change{{"'none'", "'layer'"}}, []change{{"", "'none'"}}},
	"caches":          {[]change{{"", "['~/.cache/x']"}}, nil},
	"home_size":       {[]change{{"", "'11G'"}}, []change{{"", "'1G'"}}},
	"env_passthrough": {[]change{{"", "['A_TOKEN']"}}, []change{{"['A_TOKEN']", "[]"}}},
	// A variable that the user sets can stand for one with a secret.
	"env":          {[]change{{"", "['A=1']"}, {"['A=1']", "[]"}, {"['A=1']", "['A=2']"}}, nil},
	"clear_env":    {[]change{{"true", "false"}}, []change{{"", "true"}}},
	"allow_net":    {[]change{{"", "['a.example']"}, {"['a.example:443']", "['a.example']"}, {"['a.example']", "['*.example']"}}, []change{{"['a.example', 'b.example']", "['b.example']"}}},
	"net_by":       {[]change{{"", "'kernel'"}, {"'kernel'", "'broker'"}}, nil},
	"publish":      {[]change{{"", "[80]"}}, []change{{"[80, 81]", "[81]"}}},
	"allow_unix":   {[]change{{"", "['/run/x']"}, {"", "['docker']"}}, []change{{"['/run/x']", "[]"}}},
	"allow_userns": {[]change{{"", "true"}}, []change{{"true", "false"}}},
	// Without ids of its own, root's command reads what only root may read.
	"own_ids": {[]change{{"", "true"}, {"true", "false"}}, nil},
	"devices": {[]change{{"", "['kvm']"}}, []change{{"['kvm']", "[]"}}},
	// A credential hides the variable or the file with the secret.
	"credentials": {[]change{{"", "['a.example=env:KEY']"}, {"['a.example=env:KEY']", "[]"}}, nil},
	"timeout":     {[]change{{"'1m'", "'2m'"}}, []change{{"", "'1m'"}, {"'2m'", "'1m'"}}},
	"grace":       {[]change{{"", "'3s'"}}, []change{{"", "'1s'"}}},
	"memory":      {[]change{{"'1G'", "'2G'"}}, []change{{"", "'1G'"}, {"'1G'", "'1000M'"}}},
	"swap":        {[]change{{"", "'1G'"}, {"'1G'", "'max'"}}, []change{{"'max'", "'1G'"}, {"", "'0'"}}},
	"pids":        {[]change{{"10", "11"}}, []change{{"", "10"}, {"10", "9"}}},
	"cpus":        {[]change{{"1", "1.5"}}, []change{{"", "2"}, {"1.5", "1"}}},
	"nofile":      {[]change{{"10", "11"}}, []change{{"", "10"}, {"10", "9"}}},
	"fsize":       {[]change{{"'1M'", "'1G'"}}, []change{{"", "'1G'"}, {"'1G'", "'1M'"}}},
	"output":      {[]change{{"'1M'", "'1G'"}}, []change{{"", "'1G'"}, {"'1G'", "'1M'"}}},
	"disk":        {[]change{{"'1M'", "'1G'"}}, []change{{"", "'1G'"}, {"'1G'", "'1M'"}}},
	"inodes":      {[]change{{"10", "11"}}, []change{{"", "10"}, {"10", "9"}}},
	"nice":        {[]change{{"5", "4"}}, []change{{"", "5"}, {"5", "6"}}},
	"idle_io":     {[]change{{"true", "false"}}, []change{{"", "true"}}},
}

// TestUntrusted: a project's file that is not trusted changes what it may and nothing else, key by key, at the top, in
// a profile, with dots and in an inline table.
func TestUntrusted(t *testing.T) {
	for i, k := range Keys {
		if k.General {
			continue
		}
		c, ok := untrusted[k.Name]
		if !ok || len(c.refused)+len(c.allowed) == 0 {
			t.Errorf("%s: nobody has written down what a project may do with it", k.Name)
		}
		for n, change := range append(c.refused, c.allowed...) {
			refused := n < len(c.refused)
			user := ""
			if change.user != "" {
				user = "@user\n[" + k.Table + "]\n" + k.Name + " = " + change.user + "\n"
			}
			for _, form := range [...]string{
				"[TABLE]\nKEY = VALUE\n", "TABLE.KEY = VALUE\n", "TABLE = { KEY = VALUE }\n", "[TABLE]\n\"KEY\" = VALUE\n",
				"[profile.x]\nmatch = ['make']\nKEY = VALUE\n", "profile.x = { match = ['make'], KEY = VALUE }\n", "profile.'x'.match = ['make']\nprofile.x.KEY = VALUE\n",
			} {
				project := strings.NewReplacer("TABLE", k.Table, "KEY", k.Name, "VALUE", change.project).Replace(form)
				before := outcome(user, []string{"make"}, nil)
				after := outcome(user+"@project\n"+project, []string{"make"}, nil)
				left := strings.Contains(after, "left: ")
				rest := after
				if left {
					_, rest, _ = strings.Cut(after, "\n")
				}
				if strings.Contains(after, "error: ") || left != refused || refused && rest != before || !refused && after == before && Keys[i].Default != change.project && change.project != "'0'" {
					t.Errorf("%s%s: %s\nwithout: %s", user, project, after, before)
				}
			}
		}
	}
}
