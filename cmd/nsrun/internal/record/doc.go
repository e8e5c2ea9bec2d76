// Package record tells the registry of projects what verbs did to a session: committed, dropped, discarded, undone. It
// stops no verb: if the registry fails, the package prints the error, and the verb goes on.
package record
