// Package sshagent stands between a sandbox and the caller's ssh-agent. It speaks the agent's protocol
// (draft-miller-ssh-agent, with the encodings of RFC 4251) to both sides. A client in the sandbox gets a list of the keys
// that were chosen, and signatures that somebody has said yes to; nothing else of what an agent can do.
//
// What a client sends is hostile: messages have a largest size, clients a largest number, and requests a largest rate.
// Requests are parsed and written anew for the agent, never passed on as they are; what is passed on as it is, the
// session-bind of OpenSSH, is for the agent alone to judge, which checks its signature.
//
// The package imports internal/clients, internal/escape and internal/githash. It decides nothing, and asks nobody: the
// Proxy's functions do.
package sshagent
