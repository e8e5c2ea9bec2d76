// Package examples has whole programs, each in a directory of its own:
//
//   - agent runs one shell command for an agent, and keeps its changes apart;
//   - embed runs shell commands in a project for an agent, and commits each;
//   - stream shows the output of a command while it runs;
//   - review asks before it commits what a command changed;
//   - network lets a command reach one server and nothing else;
//   - watch shows what a command writes while it runs;
//   - bwrap runs a command in a sandbox like the one for which programs otherwise start bwrap.
//
// Short examples of single functions are in the documentation of the packages.
package examples
