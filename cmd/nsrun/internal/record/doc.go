// Package record tells the registry of projects what verbs did to a session: committed,
// dropped, discarded, undone. It stops no verb: what fails is said, and all goes on.
package record
