package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/wsfs/wsfs"
)

// The exit codes that mount(8) wants of a helper.
const (
	helperUsage  = 1  // incorrect invocation
	helperFailed = 32 // mount failure
)

const helperHelp = `usage: mount.fuse.wsfs SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]
mount(8)'s helper for 'wsfs overlay'; SOURCE is what df shows. See 'wsfs overlay --help'.`

// A helperCall is the command line of a mount helper.
type helperCall struct {
	source     string
	mountpoint string
	options    []string
	fake       bool // -f: check, but do not mount
}

// runMountHelper does what mount(8) asks for and returns its exit code.
func runMountHelper(ctx context.Context, args []string) int {
	call, err := parseHelperCall(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mount.fuse.wsfs: %v\n%s\n", err, helperHelp)
		return helperUsage
	}
	c, err := wsfs.ParsePlainOptions(strings.Join(call.options, ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount.fuse.wsfs:", err)
		return helperUsage
	}
	if c.FSName == "" {
		c.FSName = call.source
	}
	if call.fake {
		return exitOK
	}
	if err := startOverlay(ctx, c, call.mountpoint, false, newLogger(false)); err != nil {
		fmt.Fprintln(os.Stderr, "mount.fuse.wsfs:", err)
		return helperFailed
	}
	return exitOK
}

// parseHelperCall reads SOURCE MOUNTPOINT and flags in any order, as mount(8)
// passes them: -o has a value, -t a type, the others are letters.
func parseHelperCall(args []string) (helperCall, error) {
	var c helperCall
	var names []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "-o" || arg == "-t" || arg == "-N":
			if i++; i == len(args) {
				return c, fmt.Errorf("%s needs a value", arg)
			}
			if arg == "-o" {
				c.options = append(c.options, args[i])
			}
		case strings.HasPrefix(arg, "-") && strings.Trim(arg[1:], "sfnv") == "" && arg != "-":
			c.fake = c.fake || strings.Contains(arg, "f")
		case strings.HasPrefix(arg, "-"):
			return c, fmt.Errorf("unknown option %q", arg)
		default:
			names = append(names, arg)
		}
	}
	if len(names) != 2 {
		return c, errors.New("SOURCE and MOUNTPOINT are needed")
	}
	c.source, c.mountpoint = names[0], names[1]
	return c, nil
}
