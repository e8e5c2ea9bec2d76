// Package sandbox is what this module asks of an nsexec.Cmd beyond what everybody can: [Options], most of which only
// bubblewrap's command line, the network's broker, the Runner or package prerun need. It stands below nsexec, where all
// of it is done, and imports only packages confine, notify, prog and sys. It starts nothing itself.
package sandbox
