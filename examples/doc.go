// Package examples has whole programs, each in a directory of its own:
//
//   - agent runs one shell command for an agent, and keeps its changes apart;
//   - embed runs shell commands in a project for an agent, and commits each;
//   - stream shows the output of a command while it runs;
//   - review asks before what a command changed gets into a project;
//   - network lets a command reach one server and nothing else;
//   - watch shows what a command writes while it runs;
//   - bwrap starts a sandbox that programs otherwise start bwrap for.
//
// Short examples of single functions are in the documentation of the packages.
package examples
