//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

const sysGetcpu = 309
