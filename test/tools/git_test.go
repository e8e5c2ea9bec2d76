//go:build linux

package tools

const gitSetup = "git init -q -b main; printf '1\\n2\\n3\\n' >f; mkdir d; echo g >d/g; git add .; git commit -qm first; "

var gitTasks = []task{
	{name: "git init and commit", slow: true, needs: "git", run: "git init -q -b main && echo a >a && git add a && git commit -qm x && git log --format=%T && git status --porcelain", then: "git fsck --strict; git log --format=%H"},
	{name: "git commit in a repository", needs: "git", setup: gitSetup, run: "echo 4 >>f && git commit -qam second && git log --format='%s %T'", then: "git status --porcelain; git log --format=%H; git fsck"},
	{name: "git branch, merge, conflict", needs: "git", setup: gitSetup, run: "git checkout -qb side && echo s >>f && git commit -qam side && git checkout -q main && echo m >>f && git commit -qam main; git merge side >/dev/null; git diff --name-only --diff-filter=U; git checkout --theirs f && git add f && git commit -qm merged && git log --format=%s", then: "git status --porcelain; cat f"},
	{name: "git rebase", slow: true, needs: "git", setup: gitSetup, run: "git checkout -qb side && echo s >s && git add s && git commit -qm side && git checkout -q main && echo m >m && git add m && git commit -qm main && git checkout -q side && git rebase -q main && git log --format='%s %T'", then: "git log --format=%H; git status --porcelain"},
	{name: "git rebase --exec and --autosquash", slow: true, needs: "git", setup: gitSetup, run: "echo a >a && git add a && git commit -qm a && echo b >>a && git commit -qa --fixup=HEAD && GIT_SEQUENCE_EDITOR=: git rebase -q -i --autosquash --exec 'cat a' HEAD~2 2>/dev/null && git log --format=%s"},
	{name: "git stash", slow: true, needs: "git", setup: gitSetup, run: "echo x >>f && git stash -q && cat f && git stash list && git stash pop -q && cat f", then: "git status --porcelain"},
	{name: "git stash -u", slow: true, needs: "git", setup: gitSetup, run: "echo x >new && git stash -qu && ls && git stash pop -q && cat new"},
	{name: "git reset and clean", slow: true, needs: "git", setup: gitSetup, run: "echo x >>f; mkdir n; touch n/n; git reset -q --hard && git clean -qfd && git status --porcelain && ls"},
	{name: "git mv and rm of files", slow: true, needs: "git", setup: gitSetup, run: "git mv f h && git rm -q d/g && git commit -qm moved && git show --stat --format= -M && ls"},
	{name: "git mv of a directory", needs: "git", setup: gitSetup, run: "git mv d e && git commit -qm moved && git show --stat --format= -M && ls && cat e/g", then: "git status --porcelain; git fsck --strict"},
	{name: "git worktree move", slow: true, needs: "git", setup: gitSetup + "git worktree add -q -b side wt", run: "git worktree move wt moved && git -C moved status --porcelain && ls moved", then: "git -C moved log --format=%s"},
	{name: "git bisect", slow: true, needs: "git", setup: gitSetup + "for i in 1 2 3 4 5; do echo $i >n; git add n; git commit -qm $i; done", run: "git bisect start -q HEAD HEAD~5 >/dev/null && git bisect run sh -c 'test $(cat n 2>/dev/null || echo 0) -lt 3' >/dev/null 2>&1; git show -s --format=%s refs/bisect/bad; git bisect reset -q 2>/dev/null; git status --porcelain"},
	{name: "git cherry-pick and revert", slow: true, needs: "git", setup: gitSetup + "git checkout -qb s; echo c >c; git add c; git commit -qm c; git checkout -q main", run: "git cherry-pick s >/dev/null && git revert --no-edit HEAD >/dev/null && git log --format='%s %T'"},
	{name: "git gc and repack", slow: true, needs: "git", setup: gitSetup + "for i in 1 2 3 4 5 6; do echo $i >>f; git commit -qam $i; done", run: "git gc -q --prune=now && git count-objects -v | grep -E '^(count|packs)' && git fsck --strict", loose: true, then: "git log --format=%s | wc -l"},
	{name: "git tag, describe, archive", needs: "git", setup: gitSetup, run: "git tag -a v1 -m one && git describe && git archive --format=tar HEAD | tar -t"},
	{name: "git apply and am", slow: true, needs: "git", setup: gitSetup + "echo p >>f; git commit -qam p; git format-patch -q -1; git reset -q --hard HEAD~", run: "git apply --check 0001-p.patch && git am -q 0001-p.patch && git log --format='%s %T'"},
	{name: "git hooks", slow: true, needs: "git", setup: gitSetup + "printf '#!/bin/sh\\necho hook >>hooked\\n' >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit", run: "echo z >>f && git commit -qam hooked && cat hooked"},
	{name: "git worktree", slow: true, needs: "git", setup: gitSetup, run: "git worktree add -q -b side wt && echo w >wt/w && git -C wt add w && git -C wt commit -qm w && git log --format=%s side && git worktree remove wt && git worktree prune && git branch -D side >/dev/null && git branch"},
	{name: "git clone by file://", slow: true, needs: "git", setup: gitSetup, run: "git clone -q file://$PWD x && git -C x log --format=%s && echo n >x/n && git -C x add n && git -C x commit -qm n && git -C x push -q origin HEAD:refs/heads/n && git branch", loose: true},
	{name: "git clone --no-hardlinks", slow: true, needs: "git", setup: gitSetup, run: "git clone -q --no-hardlinks . x && git -C x log --format=%s && git -C x fsck", loose: true},
	{name: "git fetch and pull", needs: "git", setup: "mkdir up; cd up; " + gitSetup + "cd ..; git clone -q file://$PWD/up down; cd up; echo more >>f; git commit -qam more", run: "cd down && git pull -q && git log --format=%s && git fetch -q --all", loose: true},
	{name: "git bare and push", needs: "git", setup: gitSetup, run: "git init -q --bare b.git && git push -q b.git main && git -C b.git log --format=%s main", loose: true},
	{name: "git blame, grep, log -S", needs: "git", setup: gitSetup, run: "git blame -s f | cut -d' ' -f2- && git grep -n 2 && git log -S3 --format=%s"},
	{name: "git config and alias", needs: "git", setup: gitSetup, flags: "--allow-exec", run: "git config user.x y && git config alias.hi '!echo hello' && git hi && git config --list --local | grep -c ."},
	{name: "git submodule", needs: "git", setup: "mkdir sub; cd sub; " + gitSetup + "cd ..; git init -q -b main", run: "git -c protocol.file.allow=always submodule --quiet add file://$PWD/sub sm && git commit -qm sm && git submodule status | cut -c1-41 && git -c protocol.file.allow=always submodule --quiet update --init", loose: true},
	{name: "git sparse-checkout", needs: "git", setup: gitSetup, run: "git sparse-checkout set --no-cone d/ 2>/dev/null && ls && git sparse-checkout disable && ls"},
	{name: "git clone of a local path", needs: "git", setup: gitSetup, run: "git clone -q . x && git -C x fsck --strict && git -C x log --format=%s && git clone -q --local $PWD/x y && git clone -q --bare . z && ls y", loose: true},
	{name: "git submodule of a local path", needs: "git", setup: "git init -q -b main; mkdir sub; cd sub; " + gitSetup, run: "git -c protocol.file.allow=always submodule --quiet add $PWD/sub sm && git commit -qm sm && ls sm", loose: true},
	{name: "git bundle and notes", needs: "git", setup: gitSetup, run: "git notes add -m note && git notes show && git bundle create -q x.bundle main && git clone -q -b main x.bundle y && ls y", loose: true},
	{name: "git add -p", needs: "git perl", setup: gitSetup, run: "echo 4 >>f && printf 'y\\n' | git add -p >/dev/null && git diff --cached --stat | tail -1"},
	{name: "git lfs", slow: true, needs: "git git-lfs", setup: gitSetup, run: "git lfs install --local >/dev/null && git lfs track '*.bin' >/dev/null && printf 123 >x.bin && git add .gitattributes x.bin && git commit -qm lfs && git show HEAD:x.bin | head -1", flags: "--allow-exec", loose: true},
	{name: "git of many files", needs: "git", slow: true, setup: "git init -q -b main; for i in $(seq 100); do mkdir d$i; for k in $(seq 50); do echo $k >d$i/$k; done; done; git add .; git commit -qm many", run: "git rm -rq d1 && git checkout -q HEAD . && git status --porcelain | wc -l && git stash list | wc -l", then: "git status --porcelain"},
	{name: "hg clone", needs: "hg", slow: true, setup: "hg init r; echo a >r/a; hg -R r add -q r/a; hg -R r commit -m x -u a -d '0 0'", run: "hg clone -q -U r s && hg -R s log --template '{desc}\\n'", then: "hg -R s paths default | sed 's,.*/,,'; hg -R s incoming -q; echo $?", loose: true},
	{name: "mercurial", needs: "hg", slow: true, run: "hg init -q r 2>/dev/null || hg init r; cd r && echo a >a && hg add -q a && hg commit -m x -u a -d '0 0' && hg log --template '{node}\\n' && rm .hg/undo*", loose: true},
}
