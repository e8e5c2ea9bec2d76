//go:build linux

