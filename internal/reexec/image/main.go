// Image is the file that package reexec executes. It is built by reexec/gen. Its entry
// point, which is written in assembly, calls reexec.Main: it has no Go runtime, and its
// main function is not part of it.
package main

func main() {}
