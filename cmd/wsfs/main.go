// Command wsfs mounts layered workspaces for agents. See its help, or
// docs/reference.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
)

// memoryLimit is the memory in bytes at which the garbage collector works harder:
// the embedded store's bulk writes leave large buffers behind. It is above what
// a mount with a million files cached takes.
const memoryLimit = 768 << 20

// mountHelper is the name under which mount(8) calls this program.
const mountHelper = "mount.fuse.wsfs"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	debug.SetMemoryLimit(memoryLimit)
	// A thread that waits for a request keeps one of Go's processors. With none
	// to spare, the runtime would take it away and give it back each time.
	runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
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
