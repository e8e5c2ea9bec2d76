// Package sandbox has the [Options] of an nsexec.Cmd that only this module can set. Most are for bubblewrap's command
// line, the network's broker, the Runner or package prerun alone. Package nsexec, which is above this one, carries them
// out. It imports only packages confine, notify, prog and sys, and starts nothing itself.
package sandbox
