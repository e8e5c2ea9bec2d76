package early

const sysGetcpu = 168
