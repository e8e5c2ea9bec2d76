//go:build linux

package early

const sysGetcpu = 309
