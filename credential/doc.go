// Package credential describes credentials for HTTP that commands in a sandbox can use but not read. A Rule says which
// host gets which secret, in which header. Its text form is
//
//	api.example.com=env:TOKEN
//	api.example.com:8443=file:/home/me/.secrets/api,header=X-Api-Key
//	git:github.com
//
// The last form is for git: the secret is the password that git's credential helpers return for the host.
//
// A command speaks plain HTTP to an address on its own loopback device. Outside of the sandbox a gateway adds the
// header and speaks TLS to the host. Package gateway is such a gateway; it links net/http, which this package does not.
// This package imports internal/escape, and reads no secret: its caller does.
package credential
