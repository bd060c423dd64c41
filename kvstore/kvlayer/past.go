package kvlayer

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// ErrGone: the state that was asked for is not kept any more, or was never.
var ErrGone = errors.New("kvlayer: no such commit in history")

// A Past is the segment as it was after some commit of the namespace. It can
// stand below other layers.
type Past struct {
	l *Layer
	n uint64
}

var (
	_ overlay.Reader     = (*Past)(nil)
	_ overlay.Whiteouter = (*Past)(nil)
	_ overlay.Xattrer    = (*Past)(nil)
)

// Commit returns the number of the namespace's newest commit.
func (l *Layer) Commit(ctx context.Context) (uint64, error) {
	if err := l.reload(ctx); err != nil {
		return 0, pathError("commit", overlay.Root, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cache.head.commit, nil
}

// AsOf returns the segment as it was after commit n of the namespace. ErrGone
// if that is in the future, or older than what Options.History keeps and not
// pinned. Pin what has to stay: what is not pinned may go while it is read,
// and shows as missing files.
func (l *Layer) AsOf(ctx context.Context, n uint64) (*Past, error) {
	kept, err := l.kept(ctx, n)
	switch {
	case err != nil:
		return nil, pathError("asof", overlay.Root, err)
	case !kept:
		return nil, ErrGone
	}
	return &Past{l: l, n: n}, nil
}

// kept reports whether the state after commit n can be read.
func (l *Layer) kept(ctx context.Context, n uint64) (bool, error) {
	if err := l.reload(ctx); err != nil {
		return false, err
	}
	l.mu.Lock()
	h := l.cache.head.clone()
	l.mu.Unlock()
	return l.keptBy(ctx, h, n)
}

// keptBy is kept as of the head h.
func (l *Layer) keptBy(ctx context.Context, h head, n uint64) (bool, error) {
	if floor := h.seg(l.opt.Segment).floor; n > h.commit || n >= floor {
		return n <= h.commit, nil
	}
	pins, err := l.pins(ctx)
	return slices.Contains(pins, n), err
}

// entryOf reads what is there now, and then whether it was changed after n:
// in this order a commit in between is seen.
func (p *Past) entryOf(ctx context.Context, at link) (entry, error) {
	item, found, err := p.l.get(ctx, p.l.keys.entry(at))
	if err != nil {
		return entry{}, err
	}
	value, changed, err := p.before(ctx, p.l.keys.undoEntries(at))
	switch {
	case err != nil:
		return entry{}, err
	case changed:
		return p.l.decodeOld(value)
	case !found:
		return entry{}, nil
	}
	return p.l.decodeOld(item.Value)
}

// decodeOld decodes the value of an entry or of its undo record.
func (l *Layer) decodeOld(value []byte) (entry, error) {
	if len(value) == len(absent) && value[0] == absent[0] {
		return entry{}, nil
	}
	e, err := decodeEntry(value)
	if err != nil {
		return entry{}, l.corrupt("entry", l.keys.prefix(kindEntry))
	}
	return e, nil
}

// recordOf reads in the same order as entryOf.
func (p *Past) recordOf(ctx context.Context, ino uint64) (*record, error) {
	item, found, err := p.l.get(ctx, p.l.keys.record(ino))
	if err != nil {
		return nil, err
	}
	value, changed, err := p.before(ctx, p.l.keys.undoRecords(ino))
	switch {
	case err != nil:
		return nil, err
	case !changed && !found:
		return nil, nil
	case !changed:
		value = item.Value
	}
	r, err := decodeRecord(ino, value)
	if err != nil {
		return nil, p.l.corrupt("record", p.l.keys.record(ino))
	}
	return r, nil
}

// before returns the undo record under prefix of the first commit after p.n;
// false if there was none.
func (p *Past) before(ctx context.Context, prefix kvstore.Key) (value []byte, changed bool, err error) {
	err = p.l.scan(ctx, prefix, func(item kvstore.Item) (bool, error) {
		_, n, ok := splitBefore(item.Key)
		if !ok || len(item.Key) != len(prefix)+8 {
			return false, p.l.corrupt("history", item.Key)
		}
		if n <= p.n {
			return false, nil
		}
		value, changed = item.Value, true
		return true, nil
	})
	return value, changed, err
}

// names returns all that the directory dir said.
func (p *Past) names(ctx context.Context, dir uint64) (map[string]entry, error) {
	names, err := p.l.scanDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	prefix := p.l.keys.undoDir(dir)
	err = p.l.scan(ctx, prefix, func(item kvstore.Item) (bool, error) {
		name, n, ok := splitName(item.Key, prefix)
		if !ok {
			return false, p.l.corrupt("history", item.Key)
		}
		if n <= p.n {
			return true, nil
		}
		// The newest come first; the last one over p.n counts.
		e, err := p.l.decodeOld(item.Value)
		names[name] = e
		return true, err
	})
	return names, err
}

// Lstat implements overlay.Reader.
func (p *Past) Lstat(ctx context.Context, name overlay.Name) (overlay.Attr, error) {
	r, err := p.find(ctx, "lstat", name)
	if err != nil {
		return overlay.Attr{}, err
	}
	a := r.attr(p.l.opt.Dev)
	a.Source = overlay.Exclusive
	return a, nil
}

// find returns the record of name as it was.
func (p *Past) find(ctx context.Context, op string, name overlay.Name) (*record, error) {
	if err := name.Check(op); err != nil {
		return nil, err
	}
	r, err := find(ctx, p, name)
	return r, pathError(op, name, err)
}

// ReadDir implements overlay.Reader.
func (p *Past) ReadDir(ctx context.Context, name overlay.Name) ([]overlay.Entry, error) {
	names, err := p.dirNames(ctx, "readdir", name)
	if err != nil {
		return nil, err
	}
	return listOf(names, p.l.opt.Dev), nil
}

// dirNames returns all that the directory name said.
func (p *Past) dirNames(ctx context.Context, op string, name overlay.Name) (map[string]entry, error) {
	if err := name.Check(op); err != nil {
		return nil, err
	}
	dir, err := findDir(ctx, p, name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	names, err := p.names(ctx, dir)
	return names, pathError(op, name, err)
}

// Readlink implements overlay.Reader.
func (p *Past) Readlink(ctx context.Context, name overlay.Name) (string, error) {
	r, err := p.find(ctx, "readlink", name)
	if err != nil {
		return "", err
	}
	if r.typ() != overlay.TypeLink {
		return "", overlay.PathError("readlink", name, syscall.EINVAL)
	}
	return r.target, nil
}

// Open implements overlay.Reader.
func (p *Past) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	r, err := p.find(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(r); err != nil {
		return nil, pathError("open", name, err)
	}
	return &pastHandle{p: p, r: r, name: name}, nil
}

// Absence implements overlay.Whiteouter.
func (p *Past) Absence(ctx context.Context, name overlay.Name) (overlay.Absence, error) {
	if err := name.Check("absence"); err != nil {
		return overlay.Absence{}, err
	}
	_, a, err := marksOf(ctx, p, name)
	return a, pathError("absence", name, err)
}

// Marks implements overlay.Whiteouter.
func (p *Past) Marks(ctx context.Context, name overlay.Name) ([]string, error) {
	names, err := p.dirNames(ctx, "marks", name)
	return whiteouts(names), err
}

// Getxattr implements overlay.Xattrer.
func (p *Past) Getxattr(ctx context.Context, name overlay.Name, attr string) ([]byte, error) {
	r, err := p.find(ctx, "getxattr", name)
	if err != nil {
		return nil, err
	}
	return r.getxattr(name, attr)
}

// Listxattr implements overlay.Xattrer.
func (p *Past) Listxattr(ctx context.Context, name overlay.Name) ([]string, error) {
	r, err := p.find(ctx, "listxattr", name)
	if err != nil {
		return nil, err
	}
	return r.listxattr(), nil
}

// A pastHandle reads a file of a Past.
type pastHandle struct {
	p    *Past
	r    *record
	name overlay.Name
}

// ReadAt implements io.ReaderAt.
func (h *pastHandle) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, overlay.PathError("read", h.name, syscall.EINVAL)
	}
	n := int(max(0, min(int64(len(b)), h.r.size-off)))
	if err := h.p.l.readContent(context.Background(), h.r.content, b[:n], off); err != nil {
		return 0, pathError("read", h.name, err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Stat implements overlay.Handle.
func (h *pastHandle) Stat(context.Context) (overlay.Attr, error) {
	a := h.r.attr(h.p.l.opt.Dev)
	a.Source = overlay.Exclusive
	return a, nil
}

// Close implements overlay.Handle.
func (h *pastHandle) Close() error { return nil }
