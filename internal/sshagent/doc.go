// Package sshagent stands between a sandbox and the caller's ssh-agent. It speaks the agent's protocol
// (draft-miller-ssh-agent, with the encodings of RFC 4251) to both sides. A client in the sandbox gets a list of the
// chosen keys, and signatures that somebody approves. The package offers nothing else that an agent can do.
//
// What a client sends is hostile: the size of messages, the number of clients, and the rate of requests are limited.
// Requests are parsed and written again for the agent, except OpenSSH's session-bind: only the agent can check its
// signature.
//
// The package imports internal/clients, internal/escape and internal/githash. The functions of a Proxy make all
// decisions.
package sshagent
