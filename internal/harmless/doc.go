// Package harmless copies the settings that are no secrets from settings files that can contain some: which registries,
// mirrors and proxies a package manager uses, and how it works. It imports nothing of this module, and opens no file.
// It has a list of keys and of forms of values that it copies, and leaves out what it does not understand.
package harmless

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// most is how much of a file is looked at, in bytes. Larger ones are left out as a whole.
const most = 64 << 10

// Most is the size from which on a file is left out as a whole.
const Most = most

// formats has the files, by their paths below the home directory.
var formats = [...]struct {
	name string
	copy func(text string) string
}{
	{".npmrc", npm},
	{".config/pnpm/rc", npm},
	{".yarnrc", yarn},
	{".yarnrc.yml", berry},
	{".config/pip/pip.conf", pip},
	{".pip/pip.conf", pip},
	{".m2/settings.xml", maven},
	{".gradle/gradle.properties", gradle},
}

// Knows reports whether Copy knows a file, by its path below the home directory.
func Knows(name string) bool {
	for i := range formats {
		if formats[i].name == name {
			return true
		}
	}
	return false
}

// Copy is what of a file's content is no secret. Nil: nothing is.
func Copy(name string, content []byte) []byte {
	if len(content) >= most || !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	text := strings.ReplaceAll(string(content), "\r\n", "\n")
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return nil
	}
	for i := range formats {
		if formats[i].name != name {
			continue
		}
		if copied := formats[i].copy(text); copied != "" {
			return []byte(copied)
		}
	}
	return nil
}
