//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/bench/internal/turns"
)

// A task is a command of a developer's day.
type task struct {
	name    string
	what    string
	program string
	make    func(b *bench, project string) // makes the project
	script  string                         // for sh; $run is another word each time, $files how many
	after   string                         // what brings the project back, natively
	most    string                         // what is promised
	commit  bool                           // measured with --commit alone
	unit    int                            // -files divided by it is the number of files, if it is not zero
}

// files is how many files it has.
func (t *task) files() int { return *files / max(t.unit, 1) }

const (
	build = "1.05"
	many  = "1.25"
)

var tasks = []task{
	{name: "go-same", what: "go build, nothing changed", program: "go", make: goProject, script: "go build -o out .", most: build},
	{name: "go-changed", what: "go build, one file changed", program: "go", make: goProject, script: "echo \"package main; var run = \\\"$run\\\"\" >run.go; go build -o out .", most: build},
	{name: "npm-ci", what: "npm ci of 40 packages", program: "npm", make: npmProject, script: "npm ci --offline --no-audit --no-fund", most: build},
	{name: "pytest", what: "pytest, 400 tests", program: "pytest", make: pytestProject, script: "pytest -q", most: build},
	{name: "cmake", what: "cmake --build of 20 files", program: "cmake", make: cmakeProject, script: "echo \"#define RUN \\\"$run\\\"\" >run.h; cmake --build build", most: build},
	{name: "git-status", what: "git status in %d files", program: "git", make: gitProject(1, 1), script: "git status --porcelain", most: many, unit: 1},
	{name: "git-checkout", what: "git checkout of %d files, and back", program: "git", make: gitProject(10, 2), script: "git checkout -q v1; git checkout -q v0", most: many, unit: 10},
	{name: "create-remove", what: "%d files made and removed", program: "sh", make: nothing, script: "./tool storm create $files; rm -r s", most: many, unit: 2},
	{name: "create", what: "%d files made", program: "sh", make: nothing, script: "./tool storm create $files", after: "rm -r s", most: many, unit: 2, commit: true},
	{name: "rename", what: "%d files renamed", program: "sh", make: nothing, script: "./tool storm rename $files; rm -r s", most: "1.3", unit: 1},
}

func write(project, name, text string) {
	p := filepath.Join(project, name)
	turns.Check(os.MkdirAll(filepath.Dir(p), 0o755))
	turns.Check(os.WriteFile(p, []byte(text), 0o644))
}

// prepare runs a script natively, once.
func (b *bench) prepare(project, script string) {
	turns.Check(b.command(project, b.ways[0], "", script))
}

func nothing(*bench, string) {}

func goProject(_ *bench, project string) {
	write(project, "go.mod", "module example.org/p\n\ngo 1.24\n")
	write(project, "run.go", "package main; var run = \"\"")
	write(project, "main.go", "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(run, nil) }\n")
}

// npmProject has packages as archives, so that no registry is asked.
func npmProject(b *bench, project string) {
	const packages, files = 40, 25
	var list []string
	for i := range packages {
		dir := "packages/p" + strconv.Itoa(i)
		write(project, dir+"/package/package.json", fmt.Sprintf(`{"name": "p%d", "version": "1.0.0"}`, i))
		for j := range files {
			write(project, fmt.Sprintf("%s/package/f%d.js", dir, j), fmt.Sprintf("module.exports = '%d %d %2000s';\n", i, j, ""))
		}
		list = append(list, fmt.Sprintf(`"p%d": "file:%s.tgz"`, i, dir))
	}
	write(project, "package.json", `{"name": "p", "version": "1.0.0", "dependencies": {`+strings.Join(list, ", ")+`}}`)
	b.prepare(project, "for d in packages/*; do tar -czf $d.tgz -C $d package; rm -r $d; done; npm install --offline --no-audit --no-fund")
}

func pytestProject(_ *bench, project string) {
	for i := range 20 {
		write(project, fmt.Sprintf("test_%d.py", i), "import pytest\n\n\n@pytest.mark.parametrize('i', range(20))\ndef test(i, tmp_path):\n    (tmp_path / 'f').write_text(str(i))\n    assert (tmp_path / 'f').read_text() == str(i)\n")
	}
}

func cmakeProject(b *bench, project string) {
	write(project, "CMakeLists.txt", "cmake_minimum_required(VERSION 3.13)\nproject(p C)\nfile(GLOB all *.c)\nadd_executable(p ${all})\n")
	write(project, "run.h", "")
	write(project, "main.c", "int main(void) { return 0; }\n")
	for i := range 20 {
		write(project, fmt.Sprintf("f%d.c", i), fmt.Sprintf("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"run.h\"\nvoid f%d(void) { puts(RUN); }\n", i))
	}
	b.prepare(project, "cmake -S . -B build")
}

// gitProject has so many versions of a part of the files.
func gitProject(part, versions int) func(*bench, string) {
	return func(b *bench, project string) {
		b.prepare(project, "git init -q; echo tool >.git/info/exclude")
		for v := range versions {
			for i := range *files / part {
				write(project, fmt.Sprintf("d%d/f%d", i/100, i), fmt.Sprintf("%d %511d\n", v, i%1000))
			}
			b.prepare(project, fmt.Sprintf("git add -A; git -c user.name=b -c user.email=b@localhost commit -qm v%d; git tag v%d", v, v))
		}
		b.prepare(project, "git checkout -q v0")
	}
}
