//go:build linux

package integration

import (
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goEnv returns the machine's caches, which are no part of a test.
func goEnv(t *testing.T) []string {
	t.Helper()
	out, err := osexec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	return []string{"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local"}
}

// TestGoBuild builds, vets and tests a module whose files are in the project,
// with the build's own files in the workspace, then changes it.
func TestGoBuild(t *testing.T) {
	t.Parallel()
	need(t, "go")
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program{
		env: append(goEnv(t), "REPOSITORY="+repository),
		project: func(t *testing.T, dir string) {
			script(t, dir, `cp "$REPOSITORY"/go.mod "$REPOSITORY"/go.sum . && cp -r "$REPOSITORY"/router .`, "REPOSITORY="+repository)
			put(t, dir, "cmd/show/main.go", `package main

import (
	"fmt"

	"github.com/wsfs/wsfs/router"
)

func main() { fmt.Println(router.Encode("a/b")) }
`)
		},
		script: `
			mkdir tmp bin
			export GOTMPDIR=$PWD/tmp
			go build -trimpath -o bin/ ./cmd/...
			bin/show
			go vet ./...
			go test -count=1 -trimpath ./router | sed 's/[0-9.]*s$//'
			sed -i 's|a/b|c/d|' cmd/show/main.go
			go run -trimpath ./cmd/show
			go build -trimpath -o bin/show2 ./cmd/show
			sha256sum bin/*
			go test -c -trimpath -o bin/router.test ./router
			cd router && ../bin/router.test -test.run TestRoute
		`,
	}.run(t)
}

// TestNpm installs packages with several hundred files, uses them, changes
// and removes them.
func TestNpm(t *testing.T) {
	t.Parallel()
	program{
		needs: []string{"npm"},
		env:   []string{"npm_config_cache=" + filepath.Join(scratch, "npm"), "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"},
		project: func(t *testing.T, dir string) {
			put(t, dir, "package.json", `{"name": "app", "version": "1.0.0", "dependencies": {"express": "4.19.2", "lodash": "4.17.21"}}`+"\n")
			put(t, dir, "app.js", `console.log(Object.keys(require("express")).length, require("lodash").VERSION)`+"\n")
		},
		view: view{},
		script: `
			npm install --silent >"$OUT/log" 2>&1 || { cat "$OUT/log"; exit 1; }
			node app.js
			npm install --silent typescript@5.4.5
			echo 'const n: number = 1; console.log(n)' >x.ts
			npx --no-install tsc x.ts
			node x.js
			npm uninstall --silent lodash
			npm ls --all | tail -n +2 | sort | sha256sum
			test ! -e node_modules/lodash
			npm ci --silent
			mv node_modules old
			mv old node_modules
			node x.js
			rm -f "$OUT/log"
		`,
	}.run(t)
}
