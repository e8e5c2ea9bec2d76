// Package sshagent stands between a sandbox and the caller's ssh-agent. It speaks the agent's protocol
// (draft-miller-ssh-agent, with the encodings of RFC 4251) to both sides. A client in the sandbox gets a list of the
// chosen keys, and the signatures that somebody has said yes to. The package offers nothing else that an agent can do.
//
// What a client sends is hostile: the size of messages, the number of clients, and the rate of requests are limited.
// Requests are parsed and written anew for the agent, with one exception: the session-bind of OpenSSH is passed on as
// it is, because the agent alone can judge it, by its signature.
//
// The package imports internal/clients, internal/escape and internal/githash. It decides nothing, and asks nobody: the
// Proxy's functions do.
package sshagent
