//go:build linux

package fs_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
)

// children are what a child process can be asked to do; see run.
var children = map[string]func(args []string) error{
	"script":   playScript,
	"random":   playRandom,
	"opens":    playOpens,
	"tree":     playTree,
	"times":    playTimes,
	"identity": playIdentity,
	"versions": readVersions,
	"mapstore": storeToMapping,
}

// child does what name says and returns the exit status.
func child(name string, args []string) int {
	fn, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no child %q\n", name)
		return 2
	}
	if err := fn(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// command returns the command that has a child process of the given user do
// name. The test must have no file of the mount open when it starts it.
func command(t testing.TB, uid uint32, name string, args ...string) *osexec.Cmd {
	t.Helper()
	c := osexec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append(os.Environ(), "WSFS_CHILD="+name)
	c.Dir = "/"
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return c
}

// run has a child process of the given user do name and returns what it
// printed.
func run(t testing.TB, uid uint32, name string, args ...string) string {
	t.Helper()
	out, err := command(t, uid, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q as %d: %v\n%s", name, strings.Join(args, " "), uid, err, out)
	}
	return string(out)
}
