// Package host finds out what policy has to know about this machine and its caller: home directories and the secrets in
// them, unix sockets, git directories, playgrounds, /etc/resolv.conf, and where paths lead.
//
// It looks, and decides nothing: what lies over what in a sandbox is for package plan. Nothing on the host is changed,
// but for directories of nsrun's own, by functions that say so. It may import what lies below the Runner (mounts, links,
// overlay and project for the places of their directories) and never package nsrun.
//
// A command waits for it, so it asks little: it lists the home directory and its .config instead of testing every path of a
// secret, and asks the kernel once for the sockets of its network namespace. It finds others by looking through all
// processes, while the sandbox is set up.
package host
