package wsfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/router"
)

// ErrNoWorkspace: the state directory holds no workspace of that name.
var ErrNoWorkspace = errors.New("no such workspace")

// A Workspace is an open workspace. Its methods may be called concurrently.
type Workspace struct {
	config Config        // immutable
	dir    string        // of the workspace's state; immutable
	table  *router.Table // immutable
	tree   *overlay.Overlay
	log    *slog.Logger
	damage []string // what recovery could not repair; immutable after Open

	// closers release what was opened, the last one first.
	closers closers
}

// Open opens the workspace that c names, or makes it. It repairs what an
// unclean stop left behind before it returns.
//
// Errors: ErrInUse if another process has the workspace or the embedded store;
// otherwise they say what to do. A workspace that could not be made leaves
// nothing behind but the state directory.
func Open(ctx context.Context, c Config) (_ *Workspace, err error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	table, err := c.table()
	if err != nil {
		return nil, err
	}
	prepareProcess()
	w := &Workspace{config: c, dir: workspaceDir(c.State, c.Name), table: table, log: c.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closers.close())
		}
	}()
	rec, err := w.claim()
	if err != nil {
		return nil, err
	}
	if err := w.assemble(ctx, rec); err != nil {
		return nil, err
	}
	if err := w.recover(ctx); err != nil {
		return nil, err
	}
	return w, rec.write(w.dir)
}

// workspaceDir returns where the workspace name is kept below state.
func workspaceDir(state, name string) string {
	return filepath.Join(state, "workspaces", router.Encode(name))
}

// ReadConfig returns the configuration with which the workspace name in state
// was opened last. ErrNoWorkspace if there is none.
func ReadConfig(state, name string) (Config, error) {
	rec, err := readRecord(workspaceDir(state, name))
	if errors.Is(err, iofs.ErrNotExist) {
		return Config{}, fmt.Errorf("%s: %w in %s", name, ErrNoWorkspace, state)
	}
	rec.Config.State = state
	return rec.Config, err
}

// claim makes the workspace's directory if need be, locks it, and returns its
// record, brought up to date with the configuration.
func (w *Workspace) claim() (record, error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return record{}, fmt.Errorf("state directory: %w; choose another with --state", err)
	}
	unlock, err := lockFile(filepath.Join(w.dir, "lock"), "workspace "+w.config.Name)
	if err != nil {
		return record{}, err
	}
	w.closers.add(unlock)
	if err := sweepRecords(w.dir); err != nil {
		return record{}, err
	}
	rec, err := readRecord(w.dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return record{Version: recordVersion, ID: rand.Text(), Config: w.config, Layers: []string{"1"}}, nil
	}
	if err != nil {
		return record{}, err
	}
	if err := sameProjects(rec.Config, w.config); err != nil {
		return record{}, err
	}
	rec.Config = w.config
	return rec, nil
}

// sameProjects refuses to put other projects under changes that were made to
// the ones the workspace has.
func sameProjects(old, now Config) error {
	if len(old.Projects) != len(now.Projects) {
		return differentProjects(old, now)
	}
	for i := range old.Projects {
		if old.Projects[i] != now.Projects[i] {
			return differentProjects(old, now)
		}
	}
	return nil
}

func differentProjects(old, now Config) error {
	return fmt.Errorf("workspace %s is of the projects %q, not %q: choose another --name", now.Name, old.Projects, now.Projects)
}

// recover repairs what an unclean stop left behind, and says what it could not
// repair.
func (w *Workspace) recover(ctx context.Context) error {
	damaged, err := w.tree.Recover(ctx, nil)
	for _, name := range damaged {
		w.damage = append(w.damage, fmt.Sprintf("%s: a power cut left this copy short, and the file it was copied from has changed", name))
	}
	for _, d := range w.damage {
		w.log.Error("workspace: damaged", "workspace", w.config.Name, "what", d)
	}
	if err != nil {
		return fmt.Errorf("workspace %s: repair after an unclean stop: %w", w.config.Name, err)
	}
	return nil
}

// Layer returns the workspace's tree for calls by this process. It is what
// Mount shows, and stays valid until Close.
func (w *Workspace) Layer() overlay.Layer { return w.tree }

// Close makes everything durable, releases the store and the workspace, and
// reports what could not be saved. Unmount first.
func (w *Workspace) Close() error { return w.closers.close() }

// closers is a stack of functions that release what was opened.
type closers struct{ fns []func() error }

func (c *closers) add(fn func() error) { c.fns = append(c.fns, fn) }

// close calls all of them, the last added first, once.
func (c *closers) close() error {
	var errs []error
	for len(c.fns) > 0 {
		fn := c.fns[len(c.fns)-1]
		c.fns = c.fns[:len(c.fns)-1]
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}
