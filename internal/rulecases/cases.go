// Package rulecases has a table of what rules about paths mean. The tests of the pure decision and those of sandboxes
// both use it. It imports nothing.
package rulecases

// A Case is a policy, and what it says about paths.
type Case struct {
	Name string
	// Rules are "rw", "ro" or "block" and a pattern, in their order. What is relative lies in the project.
	Rules []string
	// Want is what a path, in the project or absolute, is then: "rw" (written to in place), "ro" (read-only),
	// "hidden", or "-" (no rule is about it).
	Want map[string]string
}

// Tree is what the project p and the directory out beside it have, and $HOME, for testenv.Tree.
var Tree = []string{
	"p/.env: e", "p/main: m", "p/a/.env: e", "p/a/b/.env: e", "p/a/b/c: c", "p/examples/.env: x", "p/examples/deep/.env: x", "p/keys/one.pem: k", "p/keys/two.pem: k",
	"p/keys/readme: r", "p/keys/sub/three.pem: k", "p/vendor/lib/x: v", "p/vendor/lib/y: v", "p/vendor/free: f", "p/a$b: d", "p/a[1]: s", "p/.env.local: l", "p/secret/in/deep/f: f", "p/secret/g: g", "p/x/secret/h: h",
	"out/f: o", "out/d/f: o", "out/d/e/f: o", "home/.ssh/id_test: k", "home/.ssh/id_other: k", "home/notes: n", "home/.config/app/f: a",
}

// All is the table. Paths of $HOME begin with "~/".
var All = []Case{
	{"nothing", nil, map[string]string{"main": "-", ".env": "-", "../out/f": "-"}},
	{"one file", []string{"block .env"}, map[string]string{".env": "hidden", "a/.env": "-", ".env.local": "-", "main": "-"}},
	{"a directory", []string{"block keys"}, map[string]string{"keys": "hidden", "keys/one.pem": "hidden", "keys/sub/three.pem": "hidden", "main": "-"}},
	{"the later one wins", []string{"block keys", "ro keys"}, map[string]string{"keys/one.pem": "ro"}},
	{"and the other way round", []string{"ro keys", "block keys"}, map[string]string{"keys/one.pem": "hidden"}},
	{"writable, then read-only", []string{"rw ../out", "ro ../out/d"}, map[string]string{"../out/f": "rw", "../out/d/f": "ro", "../out/d/e/f": "ro"}},
	{"read-only, then writable", []string{"ro ../out", "rw ../out/d"}, map[string]string{"../out/f": "ro", "../out/d/f": "rw", "../out/d/e/f": "rw"}},
	{"a later rule for the whole covers", []string{"rw ../out/d", "ro ../out"}, map[string]string{"../out/f": "ro", "../out/d/f": "ro"}},
	{"hidden in what is writable", []string{"rw ../out", "block ../out/d"}, map[string]string{"../out/f": "rw", "../out/d/f": "hidden"}},
	{"writable in what is hidden", []string{"block ../out", "rw ../out/d"}, map[string]string{"../out/f": "hidden", "../out/d/f": "rw", "../out/d/e/f": "rw"}},
	{"hidden in writable in hidden", []string{"block ../out", "rw ../out/d", "block ../out/d/e"}, map[string]string{"../out/f": "hidden", "../out/d/f": "rw", "../out/d/e/f": "hidden"}},
	{"read-only in hidden in writable in hidden", []string{"block ../out", "rw ../out/d", "block ../out/d/e", "ro ../out/d/e/f"},
		map[string]string{"../out/f": "hidden", "../out/d/f": "rw", "../out/d/e/f": "ro"}},
	{"a file in a hidden directory of the project", []string{"block secret", "ro secret/in/deep/f"}, map[string]string{"secret/g": "hidden", "secret/in/deep/f": "ro"}},
	{"and one that is writable", []string{"block secret", "rw secret/in"}, map[string]string{"secret/g": "hidden", "secret/in/deep/f": "rw"}},
	{"a key in a place of secrets", []string{"ro ~/.ssh/id_test"}, map[string]string{"~/.ssh/id_test": "ro", "~/.ssh/id_other": "-"}},
	{"$HOME is ~", []string{"ro $HOME/.ssh/id_test", "block ${HOME}/notes"}, map[string]string{"~/.ssh/id_test": "ro", "~/notes": "hidden", "~/.config/app/f": "-"}},
	{"a variable", []string{"block $XDG_CONFIG_HOME/app"}, map[string]string{"~/.config/app/f": "hidden", "~/notes": "-"}},
	{"* within one name", []string{"block keys/*.pem"}, map[string]string{"keys/one.pem": "hidden", "keys/two.pem": "hidden", "keys/readme": "-", "keys/sub/three.pem": "-"}},
	{"? and classes", []string{"block keys/[a-o]ne.pe?"}, map[string]string{"keys/one.pem": "hidden", "keys/two.pem": "-"}},
	{"** at any depth", []string{"block **/.env"}, map[string]string{".env": "hidden", "a/.env": "hidden", "a/b/.env": "hidden", "examples/deep/.env": "hidden", ".env.local": "-", "a/b/c": "-"}},
	{"** in the middle", []string{"block a/**/.env"}, map[string]string{".env": "-", "a/.env": "hidden", "a/b/.env": "hidden", "examples/.env": "-"}},
	{"** before a directory", []string{"block **/secret"}, map[string]string{"secret/g": "hidden", "x/secret/h": "hidden", "secret/in/deep/f": "hidden", "main": "-"}},
	{"** with a wildcard", []string{"block **/*.pem"}, map[string]string{"keys/one.pem": "hidden", "keys/sub/three.pem": "hidden", "keys/readme": "-"}},
	{"an exception", []string{"block **/.env", "block !examples/.env"}, map[string]string{".env": "hidden", "examples/.env": "-", "examples/deep/.env": "hidden"}},
	{"an exception for a directory", []string{"block **/.env", "block !examples"}, map[string]string{".env": "hidden", "examples/.env": "-", "examples/deep/.env": "-"}},
	{"an exception with **", []string{"block **/.env", "block !**/examples/**/.env"}, map[string]string{"a/.env": "hidden", "examples/.env": "-", "examples/deep/.env": "-"}},
	{"an exception for what was named", []string{"block .env", "block !.env"}, map[string]string{".env": "-"}},
	{"hidden again after an exception", []string{"block **/.env", "block !examples", "block examples/deep"}, map[string]string{"examples/.env": "-", "examples/deep/.env": "hidden", ".env": "hidden"}},
	{"an exception comes too soon", []string{"block !examples/.env", "block **/.env"}, map[string]string{"examples/.env": "hidden"}},
	{"an exception gives back what was said before", []string{"ro examples", "block **/.env", "block !examples/.env"}, map[string]string{"examples/.env": "ro", "examples/deep/.env": "hidden", ".env": "hidden"}},
	{"some of a read-only directory", []string{"ro vendor", "block vendor/lib", "ro vendor/lib/y"}, map[string]string{"vendor/free": "ro", "vendor/lib/x": "hidden", "vendor/lib/y": "ro"}},
	{"a character that stands for itself", []string{`block a\$b`, `block a\[1\]`}, map[string]string{"a$b": "hidden", "a[1]": "hidden"}},
	{"names that are not there", []string{"block not/there", "block **/never"}, map[string]string{"main": "-", ".env": "-"}},
	{"dots and slashes", []string{"block ./keys//sub/../one.pem"}, map[string]string{"keys/one.pem": "hidden", "keys/two.pem": "-"}},
}

// A Mistake is a rule that is refused.
type Mistake struct{ Rule, Want string }

// long is a name that no file can have, of 256 bytes.
const (
	part = "abcdefghijklmnop" + "abcdefghijklmnop" + "abcdefghijklmnop" + "abcdefghijklmnop"
	long = part + part + part + part
)

// Mistakes are those of one rule alone.
var Mistakes = []Mistake{
	{"block $NOBODY/x", "there is no variable NOBODY for paths; there are HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_RUNTIME_DIR, XDG_STATE_HOME"},
	{"block $PATH/x", "there is no variable PATH for paths; there are HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_RUNTIME_DIR, XDG_STATE_HOME"},
	{"block ${XDG_RUNTIME_DIR}/x", "the variable XDG_RUNTIME_DIR is not set to an absolute path"},
	{"block $XDG_RUNTIME_DIR", "the variable XDG_RUNTIME_DIR is not set to an absolute path"},
	{"block $/x", `a pattern is wrong: a $ without the name of a variable; the character itself is written \$`},
	{"block ${HOME/x", `a pattern is wrong: a $ without the name of a variable; the character itself is written \$`},
	{"block ~somebody/x", "only ~/ stands for a home directory; write that of another user in full"},
	{"block /a[", "a pattern is wrong: a [ has no ]"},
	{"block /a/[z-a]", "a pattern is wrong: a range in [ ] is backwards: write [a-z], not [z-a]"},
	{"block /x[!-~][^0-9b-a]", "a pattern is wrong: a range in [ ] is backwards: write [a-z], not [z-a]"},
	{`block /[ü-\a]*`, "a pattern is wrong: a range in [ ] is backwards: write [a-z], not [z-a]"},
	{`block /a\`, `a pattern is wrong: nothing follows the \ at its end`},
	{"block /a/*/../b", "a pattern is wrong: .. follows a wildcard"},
	{"block /a/**b", "a pattern is wrong: ** stands alone between slashes"},
	{"block /a/" + long, "a name in a path has at most 255 bytes"},
	{"rw /a/*/" + long + "/c", "a name in a path has at most 255 bytes"},
	{"block /**/x", "nsrun would have to search the whole file system: name a directory before **"},
	{"ro !/a", "only rules that hide paths can have exceptions"},
	{"rw !/a", "only rules that hide paths can have exceptions"},
	{"ro /not/there", "no such path"},
	{"rw /not/*", "no such path"},
}
