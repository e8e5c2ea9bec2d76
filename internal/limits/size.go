package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

const units = "KMGTP"

// ParseSize reads a number of bytes: digits, with a fraction before a unit, and K, M, G, T or P (powers of 1024), which
// may be followed by iB.
func ParseSize(text string) (int64, error) {
	number, factor := strings.TrimSuffix(text, "B"), 1.0
	short := strings.TrimSuffix(number, "i")
	if n := len(short); n > 0 {
		letter := short[n-1]
		if letter == 'k' {
			letter = 'K'
		}
		if i := strings.IndexByte(units, letter); i >= 0 {
			if short == number && number != text {
				return 0, fmt.Errorf("%s may mean powers of 1000 or of 1024: write %s for 1024", escape.Quote(text), escape.Quote(short))
			}
			number, factor = short[:n-1], math.Pow(1024, float64(i+1))
		}
	}
	if number == "" || strings.Trim(number, "0123456789.") != "" || factor == 1 && strings.Contains(number, ".") {
		return 0, fmt.Errorf("%s is not a size: write bytes, or a number with K, M, G, T or P, such as 512M", escape.Quote(text))
	}
	if factor == 1 {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is too large", escape.Quote(text))
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a size: write bytes, or a number with K, M, G, T or P, such as 512M", escape.Quote(text))
	}
	if f *= factor; f >= math.MaxInt64 {
		return 0, fmt.Errorf("%s is too large", escape.Quote(text))
	}
	return int64(f), nil
}

// FormatSize formats a size for people: "512 MiB".
func FormatSize(n int64) string {
	f, unit := float64(n), -1
	for f >= 1024 && unit+1 < len(units) {
		f /= 1024
		unit++
	}
	if unit < 0 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) + " " + units[unit:unit+1] + "iB"
}

// SizeText formats a size for flags and files, in the largest unit without a fraction.
func SizeText(n int64) string {
	unit := ""
	for i := range units {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, units[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}
