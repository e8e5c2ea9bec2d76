//go:build linux

// This file lets hooks.go have functions without a body.
