// Package credential describes credentials for HTTP that commands in a sandbox use without having them. A Rule says which
// host gets which secret, in which header; it is a text like
//
//	api.example.com=env:TOKEN
//	api.example.com:8443=file:/home/me/.secrets/api,header=X-Api-Key
//	git:github.com
//
// The last one is for git: the secret is what git's credential helpers have for the host.
//
// A command speaks plain HTTP to an address on its own loopback device. Outside of the sandbox a gateway adds the header
// and speaks TLS to the host. Package gateway is one, for programs that may link net/http; this package links nothing of
// the kind. It imports internal/escape, and reads nothing: who has a Rule finds the secret.
package credential
