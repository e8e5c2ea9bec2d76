// Package gpgagent stands between a sandbox and the caller's gpg-agent. It speaks the agent's protocol (Assuan) to both
// sides. A client in the sandbox can have hashes signed with chosen keys, if somebody approves each signature. The
// package offers nothing else that an agent can do: it decrypts nothing, and exports, imports, makes and removes no
// key.
//
// What a client sends is hostile. The length of a line is limited, and every line for the agent is written again from
// parsed values. Options and descriptions, by which a client decides where the agent's program for passphrases appears
// and what it shows, are accepted and ignored. The package imports internal/clients. The functions of a Proxy make all
// decisions.
package gpgagent
