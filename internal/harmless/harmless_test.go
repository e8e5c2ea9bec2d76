package harmless

import (
	"strings"
	"testing"
)

// TestCopy: what is known is copied, and nothing else.
func TestCopy(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{".npmrc", "registry=https://npm.example.org/\n//npm.example.org/:_authToken=tok\n", "registry=https://npm.example.org/\n"},
		{".npmrc", "@corp:registry = https://npm.example.org/api/npm/corp/\nfund=false\n", "@corp:registry=https://npm.example.org/api/npm/corp/\nfund=false\n"},
		{".npmrc", "_auth=abc\n_password=abc\nemail=a@b\nusername=me\nalways-auth=true\n", ""},
		{".npmrc", "registry=https://user:pass@npm.example.org/\n", ""},
		{".npmrc", "registry=https://user@npm.example.org/\n", ""},
		{".npmrc", "registry=https://npm.example.org/?token=x\n", ""},
		{".npmrc", "registry=https://npm.example.org/${TOKEN}/\n", ""},
		{".npmrc", "registry=https://npm.example.org/4f9d8a7b6c5d4e3f2a1b/npm/\n", ""},
		{".npmrc", "registry=https://npm.example.org/glpat-Ab12Cd34Ef56Gh78Ij90/\n", ""},
		{".npmrc", "registry=https://npm.example.org/6f9619ff-8b86-d011-b42d-00c04fc964ff/\n", ""},
		{".npmrc", "proxy=http://proxy:3128\nnoproxy=localhost,.corp,10.0.0.0/8\n", "proxy=http://proxy:3128\nnoproxy=localhost,.corp,10.0.0.0/8\n"},
		{".npmrc", "proxy=http://me:pw@proxy:3128\n", ""},
		{".npmrc", "script-shell=/bin/evil\nnode-options=--require=/x\n", ""},
		{".npmrc", "[section]\nregistry=https://npm.example.org/\n", ""},
		{".npmrc", "registry=\"https://npm.example.org/\"\n", "registry=https://npm.example.org/\n"},
		{".npmrc", "registry=https://npm.example.org/\x00\n", ""},
		{".npmrc", "registry=https://npm.example.org/\x1b[31m\n", ""},
		{".npmrc", "registry=https://npm.example.org/\xff\n", ""},
		{".npmrc", strings.Repeat("#", Most) + "\nfund=true\n", ""},
		{".config/pnpm/rc", "node-linker=hoisted\n//r/:_authToken=t\n", "node-linker=hoisted\n"},
		{".yarnrc", "registry \"https://npm.example.org/\"\n\"//npm.example.org/:_authToken\" t\nyarn-path /x\n", "\"registry\" \"https://npm.example.org/\"\n"},
		{".yarnrc.yml", "nodeLinker: node-modules\nnpmAuthToken: t\nnpmScopes:\n  corp:\n    npmAuthToken: t\nnpmRegistryServer: \"https://npm.example.org\"\n",
			"nodeLinker: \"node-modules\"\nnpmRegistryServer: \"https://npm.example.org\"\n"},
		{".yarnrc.yml", "npmRegistryServer: >\n  https://npm.example.org\n", ""},
		{".yarnrc.yml", "npmRegistryServer: &a https://npm.example.org\nnodeLinker: *a\n", ""},
		{".yarnrc.yml", "npmRegistryServer: https://npm.example.org\n  more\n", ""},
		{".yarnrc.yml", "httpProxy: http://u:p@proxy:80\nyarnPath: ./x\nplugins: [x]\n", ""},
		{".yarnrc.yml", "npmRegistryServer: https://a.example.org\nnpmRegistryServer: https://b.example.org\n", "npmRegistryServer: \"https://a.example.org\"\n"},
		{".config/pip/pip.conf", "[global]\nindex-url = https://pypi.example.org/simple\nextra-index-url = https://u:p@x.example.org/simple\n", "[global]\nindex-url = https://pypi.example.org/simple\n"},
		{".config/pip/pip.conf", "[global]\nextra-index-url =\n  https://u:p@x.example.org/simple\n  https://y\n", ""},
		{".pip/pip.conf", "[global]\nindex_url: https://pypi.example.org/simple\n[mine]\ntimeout=3\n[install]\ntimeout=3\n", "[global]\nindex-url = https://pypi.example.org/simple\n[install]\ntimeout = 3\n"},
		{".pip/pip.conf", "timeout=3\n", ""},
		{".gradle/gradle.properties", "org.gradle.jvmargs=-Xmx2g -XX:MaxMetaspaceSize=512m\nsigningPassword=p\norg.gradle.parallel=true\n", "org.gradle.jvmargs=-Xmx2g -XX:MaxMetaspaceSize=512m\norg.gradle.parallel=true\n"},
		{".gradle/gradle.properties", "org.gradle.jvmargs=-Xmx2g -Dpassword=p\nsystemProp.http.proxyHost=proxy\nsystemProp.http.proxyPassword=p\n", "systemProp.http.proxyHost=proxy\n"},
		{".gradle/gradle.properties", "secret=a\\\norg.gradle.daemon=true\norg.gradle.parallel=true\n", "org.gradle.parallel=true\n"},
		{".other", "registry=https://npm.example.org/\n", ""},
	} {
		if got := string(Copy(c.file, []byte(c.text))); got != c.want {
			t.Errorf("%s: of %q\n got %q\nwant %q", c.file, c.text, got, c.want)
		}
	}
}

// TestMaven: mirrors and proxies are copied as a whole or not at all, and a file that is not understood is not.
func TestMaven(t *testing.T) {
	const mirror = "<mirror>\n<id>m</id>\n<url>https://maven.example.org/repo</url>\n<mirrorOf>*,!local</mirrorOf>\n</mirror>\n"
	const whole = "<settings>\n<mirrors>\n" + mirror + "</mirrors>\n</settings>\n"
	in := func(s string) string { return "<settings>" + s + "</settings>" }
	for _, c := range []struct{ text, want string }{
		{in("<mirrors>" + mirror + "</mirrors>"), whole},
		{"<?xml version=\"1.0\"?>\n<!-- a --><settings xmlns=\"x\" a=\"b\">\n<servers><server><id>m</id><password>p&amp;w</password></server></servers>\n<mirrors>" + mirror + "</mirrors><profiles/></settings>", whole},
		{in("<servers><server><password>p</password></server></servers>"), ""},
		{in("<mirrors><mirror><id>m</id><url>https://u:p@maven.example.org/</url></mirror></mirrors>"), ""},
		{in("<proxies><proxy><host>proxy</host><port>80</port><username>u</username><password>p</password></proxy></proxies>"), ""},
		{in("<proxies><proxy><host>proxy</host><port>80</port></proxy></proxies>"), "<settings>\n<proxies>\n<proxy>\n<host>proxy</host>\n<port>80</port>\n</proxy>\n</proxies>\n</settings>\n"},
		{in("<offline>true</offline>"), "<settings>\n<offline>true</offline>\n</settings>\n"},
		{in("<offline>&x;</offline>"), ""},
		{"<!DOCTYPE a [<!ENTITY x \"true\">]>" + in("<offline>true</offline>"), ""},
		{in("<offline><![CDATA[true]]></offline>"), ""},
		{in("<offline>true</offline>") + "<more/>", ""},
		{in("<offline>true"), ""},
		{"<other><offline>true</offline></other>", ""},
		{strings.Repeat("<settings>", 100), ""},
	} {
		if got := string(Copy(".m2/settings.xml", []byte(c.text))); got != c.want {
			t.Errorf("of %q\n got %q\nwant %q", c.text, got, c.want)
		}
	}
}

// FuzzCopy: of what is copied nothing new can be left out, no user is in it, and no line has a name that is a secret's.
func FuzzCopy(f *testing.F) {
	f.Add("registry=https://npm.example.org/\n_authToken=x\n")
	f.Add("[global]\nindex-url: https://u:p@pypi.example.org/simple\n")
	f.Add("<settings><mirrors><mirror><url>https://m</url></mirror></mirrors></settings>")
	f.Add("npmScopes:\n  a: b\nhttpProxy: \"http://p:1\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range formats {
			out := string(Copy(format.name, []byte(text)))
			if out == "" {
				continue
			}
			if again := string(Copy(format.name, []byte(out))); again != out {
				t.Errorf("%s: of %q\n%q\nthen %q", format.name, text, out, again)
			}
			for rest := out; ; {
				_, after, ok := strings.Cut(rest, "://")
				if !ok {
					break
				}
				authority, _, _ := strings.Cut(strings.TrimRight(after, "\n"), "/")
				if strings.ContainsAny(authority, "@?#$") {
					t.Errorf("%s: %q", format.name, out)
				}
				rest = after
			}
			lower := strings.ToLower(out)
			for _, word := range []string{"password", "authtoken", "_auth", "username", "passphrase"} {
				for line := range strings.Lines(lower) {
					if key, _, _ := strings.Cut(line, "="); strings.Contains(key, word) && !strings.Contains(key, "://") && !strings.Contains(key, ":registry") {
						t.Errorf("%s: %q", format.name, out)
					}
				}
			}
		}
	})
}
