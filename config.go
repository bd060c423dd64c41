package wsfs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// ErrInUse: another process holds the workspace or the store.
var ErrInUse = errors.New("in use")

// A Config says what Open opens. The exported fields with a json name are kept
// in the workspace's record, so that a later Open by name finds them again.
type Config struct {
	// State is the directory that owns everything wsfs keeps. It is made if it
	// does not exist.
	State string `json:"-"`
	// Name names the workspace in State: any text. Required.
	Name string `json:"name"`
	// Projects are the directories shown below the agent's layer, the topmost
	// first, as absolute paths. They are never written.
	Projects []string `json:"projects"`
	// Store is "badger:DIR" or "mem:" (lost at Close); "" is badger in State.
	Store string `json:"store,omitempty"`

	// Agent is required. User and Session may be missing, which narrows the
	// scopes that need them (package router).
	Agent   string `json:"agent"`
	User    string `json:"user,omitempty"`
	Session string `json:"session,omitempty"`
	// AnonymousUser stands for a missing User; "" for nobody.
	AnonymousUser string `json:"anonymousUser,omitempty"`

	// Scope is session, user, agent or global; "" is user.
	Scope string `json:"scope,omitempty"`
	// Routes are additional rules, NoRoutes built-in prefixes to leave out,
	// Local patterns of paths that stay on local disk whatever the rules say.
	Routes   []string `json:"routes,omitempty"`
	NoRoutes []string `json:"noRoutes,omitempty"`
	Local    []string `json:"local,omitempty"`

	// Log takes events; nil is slog.Default().
	Log *slog.Logger `json:"-"`
}

// DefaultState returns where wsfs keeps its state unless told otherwise:
// $WSFS_STATE, else /var/lib/wsfs for root and $XDG_STATE_HOME/wsfs (or
// ~/.local/state/wsfs) for others.
func DefaultState() (string, error) {
	if dir := os.Getenv("WSFS_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/wsfs", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsfs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the state: %v; set WSFS_STATE or use --state", err)
	}
	return filepath.Join(home, ".local", "state", "wsfs"), nil
}

// check refuses what cannot be opened, before anything is made.
func (c Config) check() error {
	switch {
	case !filepath.IsAbs(c.State):
		return fmt.Errorf("state directory %q is not absolute", c.State)
	case c.Name == "":
		return errors.New("the workspace has no name")
	case c.Agent == "":
		return errors.New("the workspace has no agent")
	}
	if err := c.checkStore(); err != nil {
		return err
	}
	for _, p := range c.Projects {
		if err := c.checkProject(p); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkProject(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("project %q is not absolute", dir)
	}
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return fmt.Errorf("project: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("project %s is not a directory", dir)
	}
	if inside(c.State, dir) {
		return fmt.Errorf("the state directory %s lies in the project %s, whose tree would then show itself; choose another with --state", c.State, dir)
	}
	return nil
}

// inside reports whether path is dir or lies below it, links resolved as far
// as they exist.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(resolved(dir), resolved(path))
	return err == nil && filepath.IsLocal(rel)
}

// resolved returns path with the links of its longest existing part resolved.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
