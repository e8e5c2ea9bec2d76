// Package near suggests a known word for an unknown one: a word that is spelled almost like it, or begins like it. It
// imports nothing of this module, and knows no words of its own.
package near

import (
	"cmp"
	"strings"
)

// Nearest is the one of the names that a word is near, or empty: of those that are equally near, the first.
func Nearest(word string, names []string) string {
	word = strings.ToLower(word)
	letters := strings.Trim(word, "-")
	most := min((len(letters)+1)/3, 3) // of three letters one may be wrong, of five two
	best, at := most+1, ""
	begins := 0
	first := ""
	for _, name := range names {
		if d := distance(word, name); d < best && d < len(strings.Trim(name, "-")) {
			best, at = d, name
		}
		if len(letters) > 1 && strings.HasPrefix(name, word) {
			begins, first = begins+1, cmp.Or(first, name)
		}
	}
	if begins == 1 || at == "" {
		at = cmp.Or(first, at)
	}
	return at
}

// distance is how many letters are wrong, missing, too many, or swapped with the next one.
func distance(a, b string) int {
	// Three rows of the table: the one before the last, the last, the one that is filled.
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		rows[2][0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			n := min(rows[1][j]+wrong, rows[1][j+1]+1, rows[2][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, rows[0][j-1]+1)
			}
			rows[2][j+1] = n
		}
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
	}
	return rows[1][len(b)]
}

// DidYouMean is the end of a message, empty where nothing is near.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return `; did you mean "` + near + `"?`
}
