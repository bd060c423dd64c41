package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsfs/wsfs"
)

func newOverlayCommand() *cobra.Command {
	var options []string
	var foreground, debug bool
	cmd := &cobra.Command{
		Use:   "overlay -o lowerdir=A[:B...],upperdir=U,workdir=W MOUNTPOINT",
		Short: "Mount plain directories as an overlay, without a workspace",
		Long: `overlay merges directories as the kernel's overlayfs and fuse-overlayfs do, with
their options and their format on disk: no daemon, no routes, no store. Without
upperdir and workdir the mount is read-only. Like there, the directories must
not be changed behind the mount while it stands.

The command returns when the mount can be used, and a process in the background
serves it until it is unmounted. Called as mount.fuse.wsfs it is mount(8)'s
helper: mount -t fuse.wsfs overlay MOUNTPOINT -o lowerdir=...; so are entries of
fstab.

Options: lowerdir, upperdir, workdir, userxattr, ro, noexec, fsname; those of
overlayfs and mount(8) that change nothing here are accepted; others are refused.
nosuid and nodev stay on.
` + exitHelp,
		Example: `  wsfs overlay -o lowerdir=/srv/base,upperdir=/srv/up,workdir=/srv/work /mnt
  wsfs overlay -o lowerdir=/srv/a:/srv/b /mnt
  mount -t fuse.wsfs overlay /mnt -o lowerdir=/srv/base,upperdir=/srv/up,workdir=/srv/work`,
		Args: exactly("MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := wsfs.ParsePlainOptions(strings.Join(options, ","))
			if err != nil {
				return usage(err)
			}
			return startOverlay(cmd.Context(), c, args[0], foreground, newLogger(debug))
		},
	}
	cmd.Flags().StringArrayVarP(&options, "options", "o", nil, "mount options, parted by commas")
	cmd.Flags().BoolVarP(&foreground, "foreground", "f", false, "serve the mount in this process")
	cmd.Flags().BoolVarP(&debug, "debug", "d", false, "log more, to stderr")
	return cmd
}

// startOverlay serves c here, or has a process in the background do it.
func startOverlay(ctx context.Context, c wsfs.PlainConfig, mountpoint string, foreground bool, log *slog.Logger) error {
	s := findStarter()
	if !foreground && !s.waits() {
		return runInBackground()
	}
	err := serveOverlay(ctx, c, mountpoint, s, log)
	if err != nil && s.waits() {
		// After the first line the starter is gone, and this one is lost.
		return errors.Join(err, s.tell(err.Error()))
	}
	return err
}

// serveOverlay mounts c, tells s, and serves the mount until the end.
func serveOverlay(ctx context.Context, c wsfs.PlainConfig, mountpoint string, s starter, log *slog.Logger) error {
	mountpoint, err := filepath.Abs(mountpoint)
	if err != nil {
		return err
	}
	o, err := wsfs.OpenPlain(ctx, c, log)
	if err != nil {
		return err
	}
	m, err := o.Mount(ctx, mountpoint)
	if err != nil {
		return errors.Join(err, o.Close())
	}
	// A process in the background holds no directory busy.
	if s.waits() {
		err = errors.Join(os.Chdir("/"), s.tell(readyWord))
	}
	return errors.Join(err, serve(ctx, m), o.Close())
}
