package nsexec_test

const auditX32 = false
