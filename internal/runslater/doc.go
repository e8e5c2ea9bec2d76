// Package runslater tells which changes of a project are executed, or obeyed, without
// anybody having asked for the project's own code: by entering a directory, opening a
// folder in an editor or an agent, starting a shell, using git, or pushing to where
// commits are built.
//
// Such are hooks and executing keys of git, startup files of shells and of programs that
// look for one where they are started, files that are loaded in a directory (direnv,
// mise), settings of editors and agents, and of services that build what is pushed.
//
// What a person runs knowingly is not: sources, Makefile, package.json, setup.py,
// build.rs, Dockerfile, test and lint settings, scripts, node_modules, a virtual
// environment. Whoever builds or tests a project, or lets an editor's language server do
// that, runs what is in it. Nor are the contents of commits: git checkout takes from them
// what it is asked for.
//
// .gitattributes and .gitmodules name drivers and URLs, and execute nothing that the
// configuration does not have: git does not take commands from them.
//
// Deletions never count, nor does a change of owner or time.
package runslater
