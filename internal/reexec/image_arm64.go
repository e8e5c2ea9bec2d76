//go:build linux && !nsrun_image

package reexec

import _ "embed"

// image is made by gen.
//
//go:embed image_arm64.bin
var image string

const sysMemfdCreate = 279
