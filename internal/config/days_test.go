package config

import (
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "1d": day, "30d": 30 * day, "2w": 14 * day, "12h": day / 2, "1h30m": 90 * time.Minute, "36500d": 36500 * day,
		"": -1, "d": -1, "-1d": -1, "-1h": -1, "1.5d": -1, "3x": -1, "99999999d": -1, "9999999999999999999999w": -1, "2000000h": -1, "7": -1,
	} {
		got, err := Days(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
