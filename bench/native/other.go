//go:build !linux

package main

import "github.com/nsrun/nsrun/internal/linuxonly"

func main() { linuxonly.Exit("bench/native") }
