package wsfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/fs/transport"
	"github.com/wsfs/wsfs/overlay"
)

// ErrBusy: processes use the mount.
var ErrBusy = errors.New("the mount is in use")

// A Process is somebody who uses a mount.
type Process = transport.Process

const (
	// grace is how long Serve waits for the users of a mount that is to end,
	// and retry how often it looks whether they have.
	grace = 10 * time.Second
	retry = 100 * time.Millisecond
)

// MountOptions say how a tree is mounted.
type MountOptions struct {
	// ReadOnly refuses every change with EROFS.
	ReadOnly bool
	// NoExec refuses to run programs from the mount.
	NoExec bool
	// Source is what the first column of df shows.
	Source string
}

// A Mount is a tree shown at a directory.
type Mount struct {
	server *transport.Server
	log    *slog.Logger
	done   chan struct{} // closed when nothing is served any more
}

// Mount shows the workspace at the directory path, an absolute path, which is
// made if only its last component is missing. It must be empty and lie outside
// the state and the projects. A dead mount there is replaced. Mount returns
// when the tree can be used; goroutines of its own serve it.
func (w *Workspace) Mount(ctx context.Context, path string, o MountOptions) (*Mount, error) {
	if o.Source == "" {
		o.Source = "wsfs:" + w.config.Name
	}
	return mount(ctx, w.tree, path, append([]string{w.dir}, w.config.Projects...), o, w.log)
}

// mount shows tree, which keeps its files in layers, at path.
func mount(ctx context.Context, tree overlay.Layer, path string, layers []string, o MountOptions, log *slog.Logger) (*Mount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("mountpoint %q is not absolute", path)
	}
	mp, err := prepareMountpoint(path, layers)
	if err != nil {
		return nil, errors.Join(err, mp.undo())
	}
	server, err := newServer(tree, path, o, log)
	if err != nil {
		return nil, errors.Join(mountError(err), mp.undo())
	}
	m := &Mount{server: server, log: log, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		server.Serve()
	}()
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(err, m.Unmount(true), mp.undo())
	}
	return m, nil
}

// mountError says what to do about an error of the kernel or fusermount3.
func mountError(err error) error {
	switch {
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: another wsfs is mounted there", err)
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("%w; is there a /dev/fuse (modprobe fuse), and without root the program fusermount3 (package fuse3)?", err)
	}
	return err
}

// Serve returns when the mount was unmounted, by whomever. If ctx is done it
// unmounts: at once if nobody uses the mount, else it waits a while for the
// users to end, then detaches the mount and returns ErrBusy.
func (m *Mount) Serve(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
	}
	deadline := time.Now().Add(grace)
	for told := false; time.Now().Before(deadline); told = true {
		err := m.Unmount(false)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if !told {
			m.tellUsers()
		}
		select {
		case <-m.done:
			return nil
		case <-time.After(retry):
		}
	}
	return errors.Join(fmt.Errorf("%s: %w: detached it all the same", m.server.Mountpoint(), ErrBusy), m.Unmount(true))
}

// tellUsers logs who uses the mount.
func (m *Mount) tellUsers() {
	users, err := transport.Users(m.server.Mountpoint())
	if err != nil {
		m.log.Warn("mount: busy; who uses it cannot be told", "mountpoint", m.server.Mountpoint(), "err", err)
	}
	for _, u := range users {
		m.log.Warn("mount: busy; waiting", "mountpoint", m.server.Mountpoint(), "pid", u.PID, "command", u.Command)
	}
}

// Unmount takes the mount away and returns when nothing is served any more.
// ErrBusy if it is in use, in which case nothing changes; with lazy it goes at
// once all the same, and what is still open on it fails from then on.
func (m *Mount) Unmount(lazy bool) error {
	unmount := m.server.Unmount
	if lazy {
		unmount = m.server.Detach
	}
	if err := busy(unmount()); err != nil {
		return err
	}
	<-m.done
	return nil
}

// Unmount takes the mount at the directory path away, whoever serves it, a
// dead one too. ErrBusy as of Mount.Unmount. It must not be called by the
// process that serves the mount.
func Unmount(path string, lazy bool) error { return busy(transport.Unmount(path, lazy)) }

// Users returns who uses the mount at path, as far as this process may know.
func Users(path string) ([]Process, error) { return transport.Users(path) }

// busy returns err, as ErrBusy if it is EBUSY.
func busy(err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%v: %w", err, ErrBusy)
	}
	return err
}
