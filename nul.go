package nsrun

import (
	"fmt"
	"reflect"
	"strings"
)

// withoutNUL returns an error that names a string in a Config or Request with a zero byte, at which the kernel would
// end it. It looks at all fields, so that none can be forgotten, but not behind interfaces, pointers and functions.
func withoutNUL(v any) error {
	field := nulIn(reflect.ValueOf(v))
	if field == "" {
		return nil
	}
	return fmt.Errorf("%s contains a zero byte", strings.TrimPrefix(field, ".")) // the text may be a secret
}

// nulIn returns the name of the first string with a zero byte. Empty: there is none.
func nulIn(v reflect.Value) (field string) {
	switch v.Kind() {
	case reflect.String:
		if strings.IndexByte(v.String(), 0) >= 0 {
			return "."
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if rest := nulIn(v.Field(i)); rest != "" {
				return "." + v.Type().Field(i).Name + strings.TrimSuffix(rest, ".")
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			if rest := nulIn(v.Index(i)); rest != "" {
				return fmt.Sprintf("[%d]%s", i, strings.TrimSuffix(rest, "."))
			}
		}
	}
	return ""
}
