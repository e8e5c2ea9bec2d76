// Package host finds out what policy has to know about this machine and its user: home directories and the secrets in
// them, unix sockets, git directories, playgrounds, /etc/resolv.conf, and where paths lead.
//
// hiddenpaths.go has the places of secrets, caches.go the caches of build tools.
//
// It only looks: package plan decides what lies over what in a sandbox. It changes nothing on the host except nsrun's
// own directories, in functions that say so. It may import what lies below the Runner (mounts, links, and overlay and
// project for the places of their directories), but never package nsrun.
//
// A command waits for it, so it makes few system calls: it lists the home directory and its .config instead of testing
// every path of a secret, and asks the kernel once for the sockets of its network namespace. While the sandbox is set
// up, it finds the sockets of other network namespaces by looking through all processes.
package host
