package disklayer

import (
	"context"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// links is the index of copies of lower files with several names: for each a
// link, named by its origin, in a directory beside the layer.
type links struct {
	fd int // of the directory, -1 if there is none; immutable

	mu sync.Mutex
	// known holds the origins that have a link. Protected by mu.
	known map[uint64]bool
}

// indexEntry returns the name of ino's link in the index.
func indexEntry(ino uint64) string { return strconv.FormatUint(ino, 16) }

// openLinks reads the index in the directory path. If there is none, it is
// empty.
func openLinks(path string) (*links, error) {
	l := &links{fd: -1, known: make(map[uint64]bool)}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if is(err, unix.ENOENT) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	l.fd = fd
	entries, err := readEntries(fd, 0)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	for _, e := range entries {
		if ino, err := strconv.ParseUint(e.Name, 16, 64); err == nil {
			l.known[ino] = true
		}
	}
	return l, nil
}

func (l *links) close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
	}
}

func (l *links) has(ino uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[ino]
}

// add links tmp in the directory at into the index. EEXIST if ino is there.
func (l *links) add(u *Upper, ino uint64, at int, tmp string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := u.step("link into index"); err != nil {
		return err
	}
	if err := unix.Linkat(at, tmp, l.fd, indexEntry(ino), 0); err != nil {
		return err
	}
	l.known[ino] = true
	return nil
}

// drop removes ino's link from the index.
func (l *links) drop(u *Upper, ino uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := u.step("unlink from index"); err != nil {
		return err
	}
	if err := unix.Unlinkat(l.fd, indexEntry(ino), 0); err != nil && !is(err, unix.ENOENT) {
		return err
	}
	delete(l.known, ino)
	return nil
}

// Indexed implements overlay.Indexer and overlay.IndexOpener.
func (m marked) Indexed(ino uint64) bool { return m.links.has(ino) }

// OpenIndexed implements overlay.IndexOpener.
func (m marked) OpenIndexed(_ context.Context, ino uint64) (overlay.Handle, error) {
	if !m.links.has(ino) {
		return nil, fail("open", overlay.Root, unix.ENOENT)
	}
	index := &dir{fd: m.links.fd}
	if _, err := m.regular(index, indexEntry(ino)); err != nil {
		return nil, fail("open", overlay.Root, err)
	}
	fd, err := m.openFile(index, indexEntry(ino), unix.O_RDONLY)
	if err != nil {
		return nil, fail("open", overlay.Root, err)
	}
	return &reader{t: m.tree, fd: fd, marked: true}, nil
}

// LinkIndexed implements overlay.Indexer. The times of the parent stay as they
// are.
func (u *Upper) LinkIndexed(_ context.Context, ino uint64, name overlay.Name) error {
	if err := u.linkIndexed(ino, name); err != nil {
		return fail("link", name, err)
	}
	return nil
}

func (u *Upper) linkIndexed(ino uint64, name overlay.Name) error {
	if !u.links.has(ino) {
		return unix.ENOENT
	}
	st, err := lstat(u.links.fd, indexEntry(ino))
	if err != nil {
		return err
	}
	index := &dir{fd: u.links.fd}
	if err := u.settle(index, indexEntry(ino), st.Ino); err != nil {
		return err
	}
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	defer u.lock(name.Dir()).Unlock()
	if _, err := u.slot(d, base, false); err != nil {
		return err
	}
	if err := u.setImpure(d); err != nil {
		return err
	}
	tmp := workName()
	if err := u.step("link copy"); err != nil {
		return err
	}
	if err := unix.Linkat(u.links.fd, indexEntry(ino), u.work, tmp, 0); err != nil {
		return err
	}
	if err := u.place(u.work, tmp, d, base); err != nil {
		u.discard(u.work, tmp)
		return err
	}
	// Only now, so that a crash leaves the count too high, never too low.
	if err := u.addLinks(ino, -1); err != nil {
		unix.Unlinkat(d.fd, base, 0) // the first error counts
		return err
	}
	u.names.add(st.Ino, name)
	return nil
}

// DropIndexed implements overlay.Indexer.
func (u *Upper) DropIndexed(_ context.Context, ino uint64) error {
	if err := u.dropIndexed(ino); err != nil {
		return fail("unlink", overlay.Root, err)
	}
	return nil
}

func (u *Upper) dropIndexed(ino uint64) error {
	if !u.links.has(ino) {
		return nil
	}
	if err := u.addLinks(ino, -1); err != nil {
		return err
	}
	st, err := lstat(u.links.fd, indexEntry(ino))
	if err != nil {
		return err
	}
	o, err := u.marks.origin(u.links.fd, indexEntry(ino), st.Ino)
	if err != nil {
		return err
	}
	if int64(st.Nlink)+int64(o.links) > 0 {
		return nil
	}
	if err := u.links.drop(u, ino); err != nil {
		return err
	}
	u.pending.forget(st.Ino)
	return u.marks.extra.forget(st.Ino)
}

// addLinks changes the count that is shown over the real one of the copy of ino.
func (u *Upper) addLinks(ino uint64, n int32) error {
	u.links.mu.Lock()
	defer u.links.mu.Unlock()
	entry := indexEntry(ino)
	st, err := lstat(u.links.fd, entry)
	if err != nil {
		return err
	}
	o, err := u.marks.origin(u.links.fd, entry, st.Ino)
	if err != nil {
		return err
	}
	o.ino, o.indexed, o.links = ino, true, o.links+n
	return u.marks.set(u.links.fd, entry, markOrigin, o.bytes())
}

// Link implements overlay.Linker. A whiteout at newname is replaced.
func (u *Upper) Link(_ context.Context, oldname, newname overlay.Name) error {
	if err := u.link(oldname, newname); err != nil {
		return fail("link", newname, err)
	}
	return nil
}

func (u *Upper) link(oldname, newname overlay.Name) error {
	from, fromBase, err := u.parent(oldname)
	if err != nil {
		return err
	}
	defer u.cache.put(from)
	to, toBase, err := u.parent(newname)
	if err != nil {
		return err
	}
	defer u.cache.put(to)
	st, err := u.stat(from, fromBase)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EPERM
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := u.settle(from, fromBase, st.Ino); err != nil {
			return err
		}
	}
	defer u.lockAll(oldname.Dir(), newname.Dir())()
	if u.impure(from) {
		if err := u.setImpure(to); err != nil {
			return err
		}
	}
	err = u.make(to, toBase, &birth{}, unix.S_IFREG, func(at int, base string) error {
		if err := u.step("link"); err != nil {
			return err
		}
		return unix.Linkat(from.fd, fromBase, at, base, 0)
	})
	if err != nil {
		return err
	}
	u.names.add(st.Ino, oldname)
	u.names.add(st.Ino, newname)
	return nil
}
