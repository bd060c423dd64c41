package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsfs/wsfs"
)

func newCheckCommand() *cobra.Command {
	var c wsfs.Config
	var asJSON, debug bool
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Check a workspace that is not mounted",
		Long: `check repairs what an unclean stop left behind, as the next mount would, then
looks at everything the workspace holds, its layers and its part of the store,
and lists what is damaged. The workspace must not be mounted.
` + exitHelp,
		Example: `  wsfs check app
  wsfs check app --json`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Log = newLogger(debug)
			if err := completeState(&c); err != nil {
				return err
			}
			damage, err := wsfs.Check(cmd.Context(), c.State, args[0], c.Log)
			if err != nil {
				return err
			}
			return report(cmd, args[0], damage, asJSON)
		},
	}
	cmd.Flags().StringVar(&c.State, "state", "", "state `DIR` (default: $WSFS_STATE, /var/lib/wsfs for root, ~/.local/state/wsfs)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&debug, "debug", false, "log more, to stderr")
	return cmd
}

// report prints what check found, an error if that is anything.
func report(cmd *cobra.Command, name string, damage []string, asJSON bool) error {
	if asJSON {
		err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"name": name, "clean": len(damage) == 0, "damage": damage})
		if err != nil {
			return err
		}
	} else {
		for _, d := range damage {
			fmt.Fprintln(cmd.OutOrStdout(), d)
		}
	}
	if len(damage) > 0 {
		return &exitError{exitDamaged, fmt.Errorf("workspace %s: %d damaged", name, len(damage))}
	}
	if !asJSON {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: clean\n", name)
	}
	return nil
}
