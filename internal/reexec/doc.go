// Package reexec is what runs Programs (package prog): in a clone of a small process.
//
// A program that embeds nsrun is never cloned, because it can have gigabytes of heap, and
// secrets in it; nor is it executed again, because packages, C constructors and hosts that
// load a library would run their own code then. It executes an image of ours instead: a
// static file of a few kilobytes, made of this package and nothing else (see gen), which
// has no Go runtime, one thread, and no environment. As launcher it clones sandboxes:
//
//	program                     launcher                    clone
//	  | block, [socket, status] ->|                           |
//	  |                           | clone3(CLONE_PARENT) ---->|
//	  |<------------ status: pid -|                           |
//	  | block, [0, 1, 2, …] --------------------------------->| socket
//	  |<-------------------------------------- status: started|
//	  |<----------------------------------------- status: exit|
//	  |<------------------------------------------------ wait4|
//
// Each message on the launcher's socket is one laid-out Program with two descriptors: the
// clone's end of a socket on which it receives the rest of its work, and the write end of
// its status pipe. Because of CLONE_PARENT the clone is a child of the program: the
// program waits for it, and it dies with the program, not with the launcher.
//
// The nsrun command is small itself. It is its own launcher (Spawn), with the same code.
package reexec
