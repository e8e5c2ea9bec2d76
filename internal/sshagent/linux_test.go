//go:build linux

package sshagent

import "golang.org/x/sys/unix"

func rights(fd int) []byte { return unix.UnixRights(fd) }
