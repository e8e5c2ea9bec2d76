// Package configfile finds configuration files, reads those that nobody else can have written, and records which files
// of projects the user trusts. Package config decides what they mean. It imports internal/config, internal/escape,
// internal/githash, internal/host, internal/links, internal/owndir, internal/paths, internal/sys, and package overlay
// for where state is kept.
package configfile
