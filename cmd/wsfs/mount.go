package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wsfs/wsfs"
)

// mountFlags are the flags of mount.
type mountFlags struct {
	config     wsfs.Config
	options    wsfs.MountOptions
	foreground bool
	debug      bool
}

func newMountCommand() *cobra.Command {
	var f mountFlags
	cmd := &cobra.Command{
		Use:   "mount MOUNTPOINT --foreground [--project DIR]...",
		Short: "Mount a workspace",
		Long: `mount shows a workspace at MOUNTPOINT, which is made if it does not exist and must
be empty: the projects below, the first on top, none of them ever written; the
agent's changes above them, kept in the state directory; and the routes
(MEMORY.md, memory/, skills/, ...) in the store. A workspace that exists is
mounted again with what it holds.

With --foreground the command serves the mount itself until it is unmounted or
told to end (Ctrl-C, SIGTERM): then everything is made durable and unmounted. A
mount that is still in use 10 s later is detached, with exit code 4.

The mountpoint is printed on stdout as soon as the mount can be used.
` + exitHelp,
		Example: `  wsfs mount /tmp/w --foreground --project ~/src/app
  wsfs mount /tmp/w --foreground --project ~/src/app --project ~/src/base --name app
  wsfs mount /tmp/w --foreground --name app --agent reviewer --user ann --session 7
  wsfs mount /tmp/w --foreground --route prompts/ --no-route plans --local '*.log'`,
		Args: exactly("MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.register(cmd)
	return cmd
}

func (f *mountFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	c := &f.config
	fl.StringArrayVar(&c.Projects, "project", nil, "directory to show below the agent's layer; again for more, the first on top (default: the current directory, or those of the workspace)")
	fl.StringVar(&c.Name, "name", "", "workspace `NAME` (default: the first project's base name)")
	fl.StringVar(&c.Agent, "agent", "default", "the agent's name")
	fl.StringVar(&c.User, "user", "", "user id (default: the login name)")
	fl.StringVar(&c.Session, "session", "", "session id")
	fl.StringVar(&c.AnonymousUser, "anonymous-user", "", "user `ID` that a missing user stands for")
	fl.StringVar(&c.Scope, "scope", "user", "who shares the routes: session, user, agent or global")
	fl.StringArrayVar(&c.Routes, "route", nil, "keep `PREFIX[=SCOPE]` in the store, too: a directory with, a file without a final slash")
	fl.StringArrayVar(&c.NoRoutes, "no-route", nil, "leave out the built-in route `PREFIX`")
	fl.StringArrayVar(&c.Local, "local", nil, "`PATTERN` of paths that stay on local disk whatever the routes say")
	fl.StringVar(&c.Store, "store", "", "badger:DIR, or mem: which forgets (default: badger in the state directory)")
	fl.StringVar(&c.State, "state", "", "state `DIR` (default: $WSFS_STATE, /var/lib/wsfs for root, ~/.local/state/wsfs)")
	fl.BoolVar(&f.options.ReadOnly, "read-only", false, "refuse every change (EROFS)")
	fl.BoolVar(&f.foreground, "foreground", false, "serve the mount in this process")
	fl.BoolVar(&f.debug, "debug", false, "log more, to stderr")
}

func (f *mountFlags) run(cmd *cobra.Command, mountpoint string) error {
	if !f.foreground {
		return usage(errors.New("this version serves a mount only with --foreground"))
	}
	if err := f.complete(cmd); err != nil {
		return err
	}
	mountpoint, err := filepath.Abs(mountpoint)
	if err != nil {
		return err
	}
	ws, err := wsfs.Open(cmd.Context(), f.config)
	if err != nil {
		return err
	}
	m, err := ws.Mount(cmd.Context(), mountpoint, f.options)
	if err != nil {
		return errors.Join(err, ws.Close())
	}
	fmt.Fprintln(cmd.OutOrStdout(), mountpoint)
	return errors.Join(serve(cmd.Context(), m), ws.Close())
}

// serve serves m until it is unmounted or ctx is done.
func serve(ctx context.Context, m *wsfs.Mount) error {
	err := m.Serve(ctx)
	if errors.Is(err, wsfs.ErrBusy) {
		return &exitError{exitBusy, err}
	}
	return err
}

// complete fills in the defaults of the command line; the Go API has none.
func (f *mountFlags) complete(cmd *cobra.Command) error {
	c := &f.config
	c.Log = newLogger(f.debug)
	if err := completeState(c); err != nil {
		return err
	}
	if !cmd.Flags().Changed("user") {
		c.User = loginName()
	}
	if len(c.Projects) == 0 && c.Name != "" {
		known, err := wsfs.ReadConfig(c.State, c.Name)
		if err == nil {
			c.Projects = known.Projects
			return nil
		}
		if !errors.Is(err, wsfs.ErrNoWorkspace) {
			return err
		}
	}
	return completeProjects(c)
}

func completeState(c *wsfs.Config) (err error) {
	if c.State == "" {
		c.State, err = wsfs.DefaultState()
		return err
	}
	c.State, err = filepath.Abs(c.State)
	return err
}

func completeProjects(c *wsfs.Config) (err error) {
	if len(c.Projects) == 0 {
		c.Projects = []string{"."}
	}
	for i, p := range c.Projects {
		if c.Projects[i], err = filepath.Abs(p); err != nil {
			return err
		}
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Projects[0])
	}
	return nil
}

// loginName returns the name of the user that runs this process, or the
// number where it has none.
func loginName() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return strconv.Itoa(userID())
	}
	return u.Username
}
