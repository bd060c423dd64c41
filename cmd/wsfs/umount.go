package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wsfs/wsfs"
)

func userID() int { return os.Getuid() }

func newUmountCommand() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "Unmount a workspace",
		Long: `umount ends the mount at MOUNTPOINT; the process that serves it makes everything
durable and ends. While the mount is in use nothing happens, and the processes
that use it are listed. With --lazy it disappears at once all the same, and
ends when the last of them lets go. A mount whose process was killed is
removed, too.
` + exitHelp,
		Example: `  wsfs umount /tmp/w
  wsfs umount --lazy /tmp/w`,
		Args: exactly("MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			mountpoint, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			err = wsfs.Unmount(mountpoint, lazy)
			if !errors.Is(err, wsfs.ErrBusy) {
				return err
			}
			listUsers(cmd.ErrOrStderr(), mountpoint)
			return &exitError{exitBusy, fmt.Errorf("%s is in use; end these processes, or use --lazy", mountpoint)}
		},
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "detach now, end when no process uses it any more")
	return cmd
}

// listUsers prints who uses the mount. That it may not know all of them is no
// error: an ordinary user cannot look into the processes of others.
func listUsers(w io.Writer, mountpoint string) {
	users, err := wsfs.Users(mountpoint)
	if err != nil {
		fmt.Fprintf(w, "wsfs: cannot tell who uses it: %v\n", err)
		return
	}
	for _, u := range users {
		fmt.Fprintf(w, "  process %d (%s):", u.PID, u.Command)
		for _, use := range u.Uses {
			fmt.Fprintf(w, " %s %s", use.What, use.Path)
		}
		fmt.Fprintln(w)
	}
}
