//go:build nsrun_image

package main

import _ "github.com/nsrun/nsrun/internal/reexec"
