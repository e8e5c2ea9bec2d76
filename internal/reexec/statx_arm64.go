package reexec

const sysStatx = 291
