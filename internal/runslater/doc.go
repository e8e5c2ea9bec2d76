// Package runslater recognizes changes of a project that would be executed or obeyed although nobody asked to run the
// project's own code: when somebody enters a directory, opens a folder in an editor or an agent, starts a shell, uses
// git, or pushes to a service that builds commits. It imports internal/paths alone. It does not walk the project or
// decide what happens to a change: its caller asks about one path at a time.
//
// These run later: hooks and executing keys of git, startup files of shells and of programs that look for one where they
// are started, files that are loaded in a directory (direnv, mise), settings of editors and agents, and settings of
// services that build what is pushed.
//
// Files that a person runs knowingly do not count: sources, Makefile, package.json, setup.py, build.rs, Dockerfile,
// test and lint settings, scripts, node_modules, a virtual environment. Whoever builds or tests a project, or lets an
// editor's language server do so, runs what is in it. Nor do the contents of git commits: git checkout takes from them
// what it is asked for.
//
// .gitattributes and .gitmodules name drivers and URLs. They execute nothing by themselves: git takes commands from its
// configuration only.
//
// The path of a change decides. For some files the contents on both sides decide too (git's configuration as git parses
// it, lines of some settings), and for some the neighbors in both views of the roots. Package overlay asks about every
// object that is not a directory. A commit skips files that run later, and new directories that contain nothing else.
//
// Deletions never count, nor does a change of owner or time.
package runslater
