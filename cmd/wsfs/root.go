package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// newRootCommand returns the command tree. Nothing in it is global, so tests
// run command lines side by side.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "wsfs",
		Short: "Workspaces for agents: layered file systems with memory in a store",
		Long: `wsfs mounts a workspace: your project below, which stays untouched, the agent's
changes in a layer on top, and in the same tree MEMORY.md, memory/, skills/ and
their kin, which live in a key-value store.
` + exitHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          func(_ *cobra.Command, args []string) error { return noSuchCommand(args) },
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath()))
	})
	root.AddCommand(newMountCommand(), newUmountCommand(), newCheckCommand(), newOverlayCommand(), newVersionCommand())
	return root
}

func noSuchCommand(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("unknown command %q; see 'wsfs --help'", args[0]))
}

// exactly is cobra.ExactArgs with an error that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage(fmt.Errorf("%s is missing; see '%s --help'", names[len(args)], cmd.CommandPath()))
		case len(args) > len(names):
			return usage(fmt.Errorf("unexpected argument %q; see '%s --help'", args[len(names)], cmd.CommandPath()))
		}
		return nil
	}
}

// newLogger logs to stderr: warnings and errors, with debug everything.
func newLogger(debug bool) *slog.Logger {
	level := slog.LevelWarn
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
