package memlayer

import (
	"context"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// LstatMarks implements overlay.Marker.
func (l *Layer) LstatMarks(ctx context.Context, name overlay.Name) (overlay.Attr, overlay.Absence, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.find("lstat", name)
	if err != nil {
		return overlay.Attr{}, l.absence(name), err
	}
	return l.attr(n), l.absence(name), nil
}

// Find implements overlay.Finder.
func (l *Layer) Find(ctx context.Context, name overlay.Name) (overlay.Attr, bool, error) {
	a, m, err := l.LstatMarks(ctx, name)
	return a, m.Gone, err
}

// Absence implements overlay.Whiteouter.
func (l *Layer) Absence(_ context.Context, name overlay.Name) (overlay.Absence, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.absence(name), nil
}

// absence is Absence.
//
// Preconditions: l.mu is held, shared or not.
func (l *Layer) absence(name overlay.Name) overlay.Absence {
	if name == overlay.Root {
		return overlay.Absence{Opaque: l.root.opaque, Redirect: l.root.redirect}
	}
	dir, base, err := l.findParent("lstat", name)
	if err != nil {
		return overlay.Absence{}
	}
	switch n := dir.children[base]; n {
	case nil:
		return overlay.Absence{}
	case whiteout:
		return overlay.Absence{Gone: true}
	default:
		return overlay.Absence{Opaque: n.opaque, Redirect: n.redirect}
	}
}

// Marks implements overlay.Whiteouter.
func (l *Layer) Marks(_ context.Context, name overlay.Name) ([]string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	dir, err := l.findDir("readdir", name)
	if err != nil {
		return nil, err
	}
	var gone []string
	for base, n := range dir.children {
		if n == whiteout {
			gone = append(gone, base)
		}
	}
	slices.Sort(gone)
	return gone, nil
}

// Whiteout implements overlay.Upper.
func (l *Layer) Whiteout(_ context.Context, name overlay.Name) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, base, err := l.removable("remove", name)
	if err != nil {
		return err
	}
	l.take(dir, base)
	dir.children[base] = whiteout
	l.touch(dir, base)
	return nil
}

// SetOpaque implements overlay.Upper.
func (l *Layer) SetOpaque(_ context.Context, name overlay.Name, opaque bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.findDir("setxattr", name)
	if err != nil {
		return err
	}
	dir.opaque = opaque
	return nil
}

// SetRedirect implements overlay.Redirecter.
func (l *Layer) SetRedirect(_ context.Context, name, target overlay.Name) error {
	if target != "" {
		if err := target.Check("setxattr"); err != nil {
			return overlay.PathError("setxattr", name, syscall.EINVAL)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.findDir("setxattr", name)
	if err != nil {
		return err
	}
	dir.redirect = target
	return nil
}
