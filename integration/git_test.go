//go:build linux

package integration

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// goSource returns a git repository with the Go source tree, some 11,000 files
// in one commit. It is made once and must not be changed.
func goSource(t *testing.T) string {
	t.Helper()
	need(t, "git", "go")
	dir, err := madeGoSource()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var madeGoSource = sync.OnceValues(func() (string, error) {
	root, err := osexec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "go")
	cmd := osexec.Command("bash", "-euc", `
		cp -a "$1/src" "$2"
		cd "$2"
		git init -q -b main
		git config gc.auto 0
		git add -A
		git commit -q -m 'Go source'
		git repack -adq
	`, "bash", strings.TrimSpace(string(root)), dir)
	cmd.Env = baseEnv(scratch)
	return dir, runQuietly(cmd)
})

// copyOf returns a project function that copies the directory from.
func copyOf(from string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		script(t, dir, `cp -a "$FROM/." .`, "FROM="+from)
	}
}

// TestGit is a day's work in a large repository whose objects and index are in
// the project.
func TestGit(t *testing.T) {
	t.Parallel()
	program{
		project: copyOf(goSource(t)),
		view:    view{skip: []string{".git"}}, // holds times and inode numbers
		script: `
			git config pack.threads 1
			# clean and stash -u would remove the routes' directories, which stay
			printf '/%s/\n' agents knowledge memory plans skills subagents >>.git/info/exclude
			git status --short --branch
			git checkout -q -b agent
			sed -i 's/package/package  /' net/http/server.go
			echo new >fmt/new.go
			rm -r encoding/hex
			chmod +x os/file.go
			git status --short
			git add -A
			git commit -q -m one
			git mv net/http net/http2
			git mv strings/builder.go strings/b.go
			git commit -q -m two
			git show --stat --format=%H HEAD | tail -n 5

			echo stashed >>fmt/print.go
			echo untracked >fmt/untracked
			git stash -q -u
			git status --short
			git stash pop -q
			git status --short
			git checkout -q -- fmt/print.go
			rm fmt/untracked

			git checkout -q -b other main
			echo other >>bytes/bytes.go
			git commit -q -am other
			git rebase -q agent
			git log --format='%H %s'
			git merge-base --is-ancestor agent other

			git worktree add -q wt main
			test "$(git -C wt rev-parse HEAD)" = "$(git rev-parse main)"
			(cd wt && echo w >w && git add w && git -c advice.detachedHead=false commit -q -m w && git status --short)
			git worktree list --porcelain | grep -c worktree
			git worktree remove wt

			git gc -q
			git fsck --full --strict 2>&1 | grep -v '^dangling\|^notice' || true
			git status --short
			git rev-list --objects --all | sort | sha256sum
			git reset -q --hard main
			git clean -fdq
			git status --short
			git checkout -q agent
			git diff --stat main | tail -n 1
		`,
	}.run(t)
}

// TestGitClone makes a repository in a store directory, and one in the
// workspace from the project's.
func TestGitClone(t *testing.T) {
	t.Parallel()
	need(t, "git")
	program{
		project: func(t *testing.T, dir string) {
			put(t, dir, "src/a", "a\n")
			script(t, dir, `cd src && git init -q -b main && git add -A && git commit -q -m a`)
		},
		view: view{skip: []string{"src/.git", "clone/.git", "skills/repo/.git"}},
		script: `
			git clone -q src clone
			cd skills && git init -q -b main repo && cd repo
			for i in $(seq 30); do echo "$i" >"f$i"; git add -A; git commit -q -m "$i"; done
			git gc -q
			git fsck --full
			git checkout -q -b b HEAD~10
			git rebase -q main
			git status --short
			git log --format=%H | sha256sum
			git -C ../../clone log --format=%H
		`,
	}.run(t)
}

// runQuietly runs cmd; its output is part of the error.
func runQuietly(cmd *osexec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return &os.PathError{Op: string(out), Path: cmd.Path, Err: err}
	}
	return nil
}
