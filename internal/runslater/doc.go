// Package runslater recognizes changes of a project that would be executed or obeyed although nobody asked to run the
// project's own code: when somebody enters a directory, opens a folder in an editor or an agent, starts a shell, uses
// git, or pushes to a service that builds commits. It imports internal/gitindex and internal/paths. It does not walk
// the project or decide what happens to a change: its caller asks about one path at a time.
//
// These run later: git's hooks and executing keys, startup files that shells and other programs look for where they are
// started, files that are loaded on entering a directory (direnv, mise), settings of editors and agents, and settings
// of services that build commits.
//
// Files that a person runs knowingly do not count: sources, Makefile, package.json, setup.py, build.rs, Dockerfile,
// test and lint settings, also those that are code (conftest.py, eslint.config.js, vite.config.ts), scripts,
// node_modules, a virtual environment. Whoever builds or tests a project, or lets an editor's language server do so,
// runs what is in it. Nor do the contents of git commits count: git checkout writes only files that it is asked for, at
// paths that it checks. It does not check those in its index, so an index with others counts.
//
// What direnv loads because of an .envrc counts, as direnv asks about that file only: flake.nix and shell.nix
// everywhere, default.nix and locks of flakes only beside an .envrc, because packages of Nix are such files, and each
// update writes the locks.
//
// What commands in such settings name counts, too: a program agrees to the settings, and not to each version of that
// file. Of package.json and composer.json only the keys count that installed hooks read (keys.go).
//
// Results of compilers do not count, such as __pycache__ and object files, although tools execute them in place of the
// sources: each build and each test writes them. Nothing in a file of __pycache__ tells whether the source beside it
// was compiled to it.
//
// .gitattributes and .gitmodules name drivers and URLs. They execute nothing by themselves: git takes commands from its
// configuration only.
//
// The path of a change decides. For some files the contents on both sides decide too (git's configuration as git parses
// it, lines of some settings), and for some the neighbors in both views of the roots. Package overlay asks about every
// object that is not a directory. A commit skips files that run later, and new directories that contain nothing else.
//
// Deletions never count, nor does a change of time. A change of owner, mode or access control list counts if other
// users can then write to a file that runs later, or to a directory of git or of such settings: they could give it
// another content at any time. It counts for a root, too, and for a directory in which one of these lies. For other
// directories it does not count.
package runslater
