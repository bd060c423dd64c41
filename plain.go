package wsfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/disklayer"
)

// A PlainOverlay is a tree of plain directories, merged as the kernel's
// overlayfs does it and in its format on disk.
type PlainOverlay struct {
	config  PlainConfig // paths are absolute; immutable
	tree    *overlay.Overlay
	log     *slog.Logger
	closers closers
}

// OpenPlain opens the directories of c and repairs what an unclean stop left
// in the upper. They must not be changed behind the tree while it is open.
func OpenPlain(ctx context.Context, c PlainConfig, log *slog.Logger) (_ *PlainOverlay, err error) {
	if err := c.absolute(); err != nil {
		return nil, err
	}
	prepareProcess()
	p := &PlainOverlay{config: c, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closers.close())
		}
	}()
	upper, err := p.openUpper()
	if err != nil {
		return nil, err
	}
	lowers, err := p.openLowers()
	if err != nil {
		return nil, err
	}
	p.tree = overlay.New(upper, lowers...)
	damaged, err := p.tree.Recover(ctx, nil)
	for _, name := range damaged {
		log.Error("overlay: a power cut left this copy short, and the file it was copied from has changed", "name", name)
	}
	return p, err
}

// openUpper opens the upper, nil if there is none to be. What kernel and wsfs
// keep besides the tree lies in the work directory.
func (p *PlainOverlay) openUpper() (overlay.Upper, error) {
	c := p.config
	if c.Upper == "" {
		return nil, nil
	}
	if inside(c.Work, c.Upper) || inside(c.Upper, c.Work) {
		return nil, fmt.Errorf("workdir %s and upperdir %s must not lie in one another", c.Work, c.Upper)
	}
	if err := p.lock(); err != nil {
		return nil, err
	}
	o := disklayer.Options{ID: c.Upper, Log: p.log, Meta: filepath.Join(c.Work, "wsfs")}
	if c.UserXattr {
		o.Format = disklayer.FormatUser
	}
	upper, err := disklayer.OpenUpper(c.Upper, filepath.Join(c.Work, "work"), o)
	if err != nil {
		return nil, fmt.Errorf("upperdir %s: %w", c.Upper, err)
	}
	p.closers.add(upper.Close)
	return upper, nil
}

// lock keeps a second mount off the same upper.
func (p *PlainOverlay) lock() error {
	unlock, err := lockFile(filepath.Join(p.config.Work, "lock"), "upperdir "+p.config.Upper)
	if err != nil {
		return fmt.Errorf("workdir %s: %w", p.config.Work, err)
	}
	p.closers.add(unlock)
	return nil
}

func (p *PlainOverlay) openLowers() ([]overlay.Reader, error) {
	var lowers []overlay.Reader
	for _, dir := range p.config.Lower {
		o := disklayer.Options{ID: dir, Log: p.log}
		if p.config.UserXattr {
			o.Format = disklayer.FormatUser
		}
		lower, err := disklayer.OpenFrozen(dir, o)
		if err != nil {
			return nil, fmt.Errorf("lowerdir %s: %w", dir, err)
		}
		p.closers.add(lower.Close)
		lowers = append(lowers, lower)
	}
	return lowers, nil
}

// absolute makes the paths of c absolute.
func (c *PlainConfig) absolute() (err error) {
	lower := make([]string, len(c.Lower))
	for i, dir := range c.Lower {
		if lower[i], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	c.Lower = lower
	if c.Upper == "" {
		return nil
	}
	if c.Upper, err = filepath.Abs(c.Upper); err != nil {
		return err
	}
	c.Work, err = filepath.Abs(c.Work)
	return err
}

// Layer returns the tree for calls by this process.
func (p *PlainOverlay) Layer() overlay.Layer { return p.tree }

// Mount shows the tree at the directory path, an absolute path; see
// Workspace.Mount.
func (p *PlainOverlay) Mount(ctx context.Context, path string) (*Mount, error) {
	o := MountOptions{ReadOnly: p.config.ReadOnly || p.config.Upper == "", NoExec: p.config.NoExec, Source: p.config.FSName}
	if o.Source == "" {
		o.Source = "overlay"
	}
	layers := p.config.Lower
	if p.config.Upper != "" {
		layers = append([]string{p.config.Upper, p.config.Work}, layers...)
	}
	return mount(ctx, p.tree, path, layers, o, p.log)
}

// Close makes the upper durable and releases it. Unmount first.
func (p *PlainOverlay) Close() error { return p.closers.close() }
