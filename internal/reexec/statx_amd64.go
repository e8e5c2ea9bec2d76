package reexec

const sysStatx = 332
