//go:build linux

package console

import (
	"fmt"
	"strconv"
	"time"
)

// Age returns roughly how long ago t was.
func Age(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Ago is Age for use in a sentence.
func Ago(t time.Time) string {
	if a := Age(t); a != "now" {
		return a + " ago"
	}
	return "just now"
}

// Size formats a number of bytes as ls -h does.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	f, unit := float64(n)/1024, 0
	for ; f >= 999.5 && unit < len("KMGTPE")-1; unit++ {
		f /= 1024
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f%c", f, "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f%c", f, "KMGTPE"[unit])
}

// Plural returns "1 change" or "2 changes".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
