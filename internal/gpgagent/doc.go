// Package gpgagent stands between a sandbox and the caller's gpg-agent. It speaks the agent's protocol (Assuan) to both
// sides. A client in the sandbox can have hashes signed with chosen keys, each after somebody has said yes; nothing else of
// what an agent can do: it decrypts nothing, and exports, imports, makes and removes no key.
//
// What a client sends is hostile. A line has a largest length, and what is passed on is written anew from parsed values.
// Options and descriptions, by which a client decides where the agent's program for passphrases appears and what it shows,
// are taken and dropped. The package imports internal/clients. It decides nothing, and asks nobody.
package gpgagent
