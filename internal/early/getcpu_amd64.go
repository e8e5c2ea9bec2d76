package early

const sysGetcpu = 309
