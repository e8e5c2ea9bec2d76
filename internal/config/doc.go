// Package config decodes configuration files, and merges them with flags into the policy of a command. It is pure:
// texts and facts go in, a policy or errors with positions come out. It imports credential, internal/limits,
// internal/near, internal/service, and internal/pathrule and netpolicy, which parse rules; it opens no file, and does
// not know where files are (internal/configfile does). keys.go is the table of keys.
package config
