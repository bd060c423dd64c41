// Command wsfs mounts layered workspaces for agents. See its help, or
// docs/reference.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// mountHelper is the name under which mount(8) calls this program.
const mountHelper = "mount.fuse.wsfs"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if filepath.Base(os.Args[0]) == mountHelper {
		os.Exit(runMountHelper(ctx, os.Args[1:]))
	}
	os.Exit(run(ctx, os.Args[1:]))
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wsfs:", err)
	}
	return exitCode(err)
}
