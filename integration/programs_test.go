//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program is a script that has to do the same in a mounted workspace as on a
// plain directory with the same files.
type program struct {
	needs []string
	// project fills the empty directory that is the project.
	project func(t *testing.T, dir string)
	// script is run by bash -eu -o pipefail in the workspace. $OUT is an empty
	// directory on local disk. What it prints, and the tree it leaves in the
	// workspace and in $OUT, are compared.
	script string
	// env is added to the environment.
	env []string
	// view is what of the trees is compared. Times of files that the script
	// makes differ, of course.
	view view
}

// routedDirs are the directories that routes put into every workspace.
var routedDirs = []string{"agents/default/sessions", "agents/default/tasks", "knowledge", "memory", "plans", "skills", "subagents"}

// run runs p on a plain directory and in a mount, and compares. Then it mounts
// again: everything must be there, the check clean, the project untouched.
func (p program) run(t *testing.T) {
	t.Helper()
	need(t, append([]string{"fuse"}, p.needs...)...)
	plain, project := t.TempDir(), t.TempDir()
	for _, dir := range []string{plain, project} {
		if p.project != nil {
			p.project(t, dir)
		}
	}
	for _, d := range routedDirs {
		if err := os.MkdirAll(filepath.Join(plain, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := treeOf(t, project, everything)
	w := mounted(t, project)

	wantOut, gotOut := t.TempDir(), t.TempDir()
	want := p.execute(t, plain, wantOut)
	got := p.execute(t, w.dir, gotOut)
	if got != want {
		t.Errorf("output on the mount:\n%s\non a plain directory:\n%s", got, want)
	}
	inMount := treeOf(t, w.dir, p.view)
	if d := treeOf(t, plain, p.view).diff(inMount); d != "" {
		t.Errorf("files on the mount (got) and on a plain directory (want) differ:\n%s", d)
	}
	if d := treeOf(t, wantOut, p.view).diff(treeOf(t, gotOut, p.view)); d != "" {
		t.Errorf("files made from the mount (got) and from a plain directory (want) differ:\n%s", d)
	}

	exact := view{times: true}
	inMount = treeOf(t, w.dir, exact)
	w.remount()
	if d := inMount.diff(treeOf(t, w.dir, exact)); d != "" {
		t.Errorf("files after a remount (got) and before (want) differ:\n%s", d)
	}
	w.unmount()
	w.check()
	if d := before.diff(treeOf(t, project, everything)); d != "" {
		t.Errorf("the project changed:\n%s", d)
	}
}

// execute runs the script in dir and returns what it printed, with the
// directories' names replaced. The script must succeed.
func (p program) execute(t *testing.T, dir, out string) string {
	t.Helper()
	began := time.Now()
	cmd := command(t, dir, "bash", "-eu", "-o", "pipefail", "-c", p.script)
	home := t.TempDir()
	cmd.Env = append(baseEnv(home), append(p.env, "OUT="+out)...)
	output, err := cmd.CombinedOutput()
	t.Logf("%v in %s", time.Since(began).Round(10*time.Millisecond), dir)
	text := strings.NewReplacer(dir, "DIR", out, "OUT", home, "HOME").Replace(string(output))
	if err != nil {
		t.Errorf("script in %s: %v; it printed:\n%s", dir, err, text)
	}
	return text
}

// baseEnv is an environment in which programs do the same on every machine;
// how the machine reaches package registries is kept.
func baseEnv(home string) []string {
	env := []string{
		"HOME=" + home, "LC_ALL=C", "TZ=UTC", "TERM=dumb", "USER=tester",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A",
		"GIT_COMMITTER_EMAIL=a@example.org", "GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z",
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch upper := strings.ToUpper(name); {
		case upper == "PATH", strings.HasSuffix(upper, "_PROXY"), strings.HasPrefix(upper, "NPM_CONFIG_"),
			strings.HasPrefix(upper, "SSL_CERT_"), upper == "NODE_EXTRA_CA_CERTS", upper == "GOPROXY", upper == "GOSUMDB":
			env = append(env, v)
		}
	}
	return env
}

// script runs a bash script in dir while a project is made; it must succeed.
func script(t *testing.T, dir, text string, env ...string) {
	t.Helper()
	cmd := command(t, dir, "bash", "-eu", "-o", "pipefail", "-c", text)
	cmd.Env = append(baseEnv(t.TempDir()), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("script in %s: %v\n%s", dir, err, out)
	}
}

// put writes a file below dir, with the directories it needs.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
