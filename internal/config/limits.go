package config

import (
	"errors"
	"math"
	"strconv"

	"github.com/nsrun/nsrun/internal/limits"
)

// field is a pointer to the field of a limit, or nil.
func field(l *limits.Limits, key int) any {
	switch key {
	case memory:
		return &l.Memory
	case swap:
		return &l.Swap
	case pids:
		return &l.PIDs
	case cpus:
		return &l.CPUs
	case nofile:
		return &l.OpenFiles
	case fsize:
		return &l.FileSize
	case output:
		return &l.Output
	case disk:
		return &l.Disk
	case inodes:
		return &l.Inodes
	case nice:
		return &l.Nice
	case idleIO:
		return &l.IdleIO
	}
	return nil
}

// unlimited is the text for unlimited swap.
const unlimited = "max"

func setLimit(to any, text string) (err error) {
	switch to := to.(type) {
	case *int64:
		if *to = -1; text != unlimited {
			*to, err = limits.ParseSize(text)
		}
	case *int:
		if *to, err = strconv.Atoi(text); err != nil {
			return errors.New("the number is too large or too small")
		}
	case *float64:
		if *to, err = strconv.ParseFloat(text, 64); err != nil {
			return errors.New("the number is too large or too small")
		}
	case *bool:
		*to = text == "true"
	}
	return err
}

// limitText is the text of a field. Equal values have equal texts.
func limitText(of any) string {
	switch of := of.(type) {
	case *int64:
		return sizeText(*of)
	case *int:
		return strconv.Itoa(*of)
	case *float64:
		return strconv.FormatFloat(*of, 'f', -1, 64)
	case *bool:
		return strconv.FormatBool(*of)
	}
	return ""
}

// sizeText is a size in a file; a negative one means no limit.
func sizeText(n int64) string {
	if n < 0 {
		return unlimited
	}
	return limits.SizeText(n)
}

func parseSize(text string, _ *Facts) (string, error) {
	n, err := limits.ParseSize(text)
	if err == nil && n == 0 {
		err = errors.New("the size must not be zero")
	}
	return sizeText(n), err
}

// parseLimit checks and normalizes the text of a limit.
func parseLimit(key int, text string) (string, error) {
	var l limits.Limits
	to := field(&l, key)
	if err := setLimit(to, text); err != nil {
		return "", err
	}
	switch text = limitText(to); {
	case key == swap:
		return text, nil
	case text == unlimited:
		return "", errors.New("for no limit, leave the key out")
	case l == (limits.Limits{}):
		return "", errors.New("the limit must not be zero")
	}
	return text, l.Check()
}

// Limits are the command's limits, except time limits.
func (p *Policy) Limits() (l limits.Limits) {
	for i := range Keys {
		if to, items := field(&l, i), p.Settings[i].Items; to != nil && len(items) > 0 {
			_ = setLimit(to, items[0].Text) // it was parsed before
		}
	}
	if items := p.Settings[swap].Items; l.Memory == 0 && len(items) > 0 && items[0].Source != Flag {
		l.Swap = 0 // files say it for those commands that have a limit of memory
	}
	return l
}

// Limits adds those flags that are not zero, or that given reports.
func (l *Layer) Limits(set limits.Limits, given func(flag string) bool) {
	var none limits.Limits
	for i, k := range Keys {
		to := field(&set, i)
		if to == nil {
			continue
		}
		if text, flag := limitText(to), k.flag(); text != limitText(field(&none, i)) || given(flag) {
			l.Set(k.Name, "--"+flag, text)
		}
	}
}

// amount is a limit's value for comparisons.
func amount(items []Item) float64 {
	text := one(items)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	if n, err := limits.ParseSize(text); err == nil {
		return float64(n)
	}
	return math.Inf(1)
}

// lower compares limits; a missing one is unlimited.
func lower(before, after []Item) bool {
	return len(after) > 0 && (len(before) == 0 || amount(after) <= amount(before))
}

// lowerSwap compares limits of swap; without one there is no swap.
func lowerSwap(before, after []Item) bool {
	return len(before) > 0 && len(after) > 0 && amount(after) <= amount(before) || amount(after) == 0
}

func higher(before, after []Item) bool {
	return len(after) > 0 && (len(before) == 0 || amount(after) >= amount(before))
}
