//go:build linux

package broker

const MaxClients = maxClients

// WithoutLandlock makes b as it is where the kernel has no Landlock.
func (b *Broker) WithoutLandlock() { b.landlock = false }

// WithoutKcmp makes b as it is where kcmp(2) is refused.
func (b *Broker) WithoutKcmp() { b.kcmp = false }
