package disklayer

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Names in the meta and work directories.
const (
	marksName = "marks"
	indexName = "index"
	cleanName = "clean"
	newName   = "new"      // in work: files before they are renamed into place
	whiteName = "whiteout" // in new: the whiteout that others are links to
)

// An Upper is a directory as the writable layer of a stack.
type Upper struct {
	marked

	work int // where files are made before they get their name; immutable
	meta int // immutable

	uid, gid uint32 // owner of what the process makes; immutable
	// gone: whiteouts go to the mark file, since the file system refuses
	// device 0:0. Immutable.
	gone bool

	// sound: the layer was closed cleanly, or has been recovered. Close leaves
	// the clean mark only then.
	sound atomic.Bool

	// locks order changes of names, by the directory they are in; see lock.
	locks [256]sync.Mutex

	pending *pending
	layers  *layerTable
	names   *nameTable

	whiteMu sync.Mutex  // one at a time makes a new whiteout to link to
	noClone atomic.Bool // the file system knows no FICLONE
	closing sync.Once
}

var (
	_ overlay.Upper       = (*Upper)(nil)
	_ overlay.Redirecter  = (*Upper)(nil)
	_ overlay.Linker      = (*Upper)(nil)
	_ overlay.XattrSetter = (*Upper)(nil)
	_ overlay.Noder       = (*Upper)(nil)
	_ overlay.Tmpfiler    = (*Upper)(nil)
	_ overlay.Statfser    = (*Upper)(nil)
	_ overlay.Identified  = (*Upper)(nil)
	_ overlay.Recoverer   = (*Upper)(nil)
	_ overlay.Syncer      = (*Upper)(nil)
	_ overlay.Indexer     = (*Upper)(nil)
	_ overlay.IndexOpener = (*Upper)(nil)
	_ overlay.Marker      = (*Upper)(nil)
	_ overlay.Checker     = (*Upper)(nil)

	_ overlay.Filer      = (*writer)(nil)
	_ overlay.Allocator  = (*writer)(nil)
	_ overlay.HoleSeeker = (*writer)(nil)
)

// OpenUpper opens dir as the writable layer. work is a directory on the same
// file system in which files are made before they are renamed into place; it
// may be that of earlier uppers. Both are made if missing. Call Recover before
// anything else, and Close in the end.
func OpenUpper(dir, work string, o Options) (*Upper, error) {
	o = o.withDefaults(dir)
	fresh, err := makeDirs(dir, work, o.Meta)
	if err != nil {
		return nil, err
	}
	t, err := openTree(dir, overlay.Exclusive, o)
	if err != nil {
		return nil, err
	}
	u := &Upper{marked: marked{tree: t}, work: -1, meta: -1, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if err := u.open(dir, work); err != nil {
		u.release()
		return nil, err
	}
	if fresh {
		u.sound.Store(true)
	}
	u.pending.start()
	return u, nil
}

// makeDirs makes the directories of an upper and reports whether there was no
// layer before.
func makeDirs(dir, work, meta string) (fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	_, err = os.Lstat(meta)
	fresh = os.IsNotExist(err) && len(entries) == 0
	for _, path := range []string{work + "/" + newName, meta + "/" + indexName} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return false, err
		}
	}
	return fresh, nil
}

// open opens u's parts and finds out what the file system can do.
func (u *Upper) open(dir, work string) (err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	for path, fd := range map[string]*int{
		work + "/" + newName: &u.work,
		u.opt.Meta:           &u.meta,
	} {
		if *fd, err = unix.Open(path, flags, 0); err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	if u.links, err = openLinks(u.opt.Meta + "/" + indexName); err != nil {
		return describe("read the index of", dir, err)
	}
	if err := u.sameFileSystem(work); err != nil {
		return err
	}
	if err := plainDir(u.work); err != nil {
		return describe("prepare", work, err)
	}
	extra, err := openMarkFile(u.opt.Meta + "/" + marksName)
	if err != nil {
		return describe("read the marks of", dir, err)
	}
	u.marks = newMarkSet(formatOf(u.root, u.opt.Format), extra, u.opt.fault)
	if err := u.markRoot(); err != nil {
		return describe("mark", dir, err)
	}
	if u.gone, err = u.probeWhiteout(); err != nil {
		return describe("make a whiteout in", work, err)
	}
	u.pending = newPending(u)
	if u.layers, err = openLayers(u.opt.Meta + "/" + layersName); err != nil {
		return describe("read the layers of", dir, err)
	}
	return u.takeClean()
}

// markRoot has the layer say its format, unless it does.
func (u *Upper) markRoot() error {
	const format = "1"
	if has, err := u.marks.get(u.root, ".", markFormat); err != nil || string(has) == format {
		return err
	}
	return u.marks.set(u.root, ".", markFormat, []byte(format))
}

// sameFileSystem returns an error unless work is where u's tree is.
func (u *Upper) sameFileSystem(work string) error {
	tree, err := fstat(u.root)
	if err != nil {
		return describe("stat", "the layer", err)
	}
	for _, fd := range []int{u.work, u.links.fd} {
		st, err := fstat(fd)
		if err != nil {
			return describe("stat", work, err)
		}
		if st.Dev != tree.Dev {
			return fmt.Errorf("disklayer: %s or %s is not on the file system of the layer: %w", work, u.opt.Meta, unix.EXDEV)
		}
	}
	return nil
}

// plainDir has files in the directory fd inherit nothing from it. What is so
// already is not written again: there may be no room for that.
func plainDir(fd int) error {
	st, err := fstat(fd)
	if err == nil && st.Mode&overlay.ModeMask != 0o700 {
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		return err
	}
	if _, err := getxattr(fd, ".", aclDefault, make([]byte, 1)); noMark(err) {
		return nil
	}
	err = removexattr(fd, ".", aclDefault)
	if err != nil && !noMark(err) {
		return err
	}
	return nil
}

// Close makes all durable, notes that the layer was left clean and releases it.
// No call may be under way; handles that are open stay good. Further calls do
// nothing.
func (u *Upper) Close() (err error) {
	u.closing.Do(func() {
		u.pending.stop()
		err = u.DrainMarks(context.Background())
		if err == nil && u.sound.Load() {
			err = u.leaveClean()
		}
		u.release()
	})
	return err
}

// release closes u's descriptors.
func (u *Upper) release() {
	for _, fd := range []int{u.work, u.meta} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	u.marked.close()
}

// step is called before each system call that changes something on disk.
func (u *Upper) step(name string) error { return seam(u.opt.fault).at(name) }

// SyncAll implements overlay.Syncer.
func (u *Upper) SyncAll(ctx context.Context) error { return u.DrainMarks(ctx) }

var seed = maphash.MakeSeed()

// lock locks the directory dir against other changes of names in it, or a
// directory whose hash is the same.
func (u *Upper) lock(dir overlay.Name) *sync.Mutex {
	mu := &u.locks[stripe(dir)]
	mu.Lock()
	return mu
}

func stripe(dir overlay.Name) uint8 { return uint8(maphash.String(seed, string(dir))) }

// lockAll locks several directories, in an order that cannot deadlock, until
// unlock is called.
func (u *Upper) lockAll(dirs ...overlay.Name) (unlock func()) {
	var want [256]bool
	for _, d := range dirs {
		want[stripe(d)] = true
	}
	for i := range want {
		if want[i] {
			u.locks[i].Lock()
		}
	}
	return func() {
		for i := range want {
			if want[i] {
				u.locks[i].Unlock()
			}
		}
	}
}

// Names in the work directory: unique to this process, whose own files Recover
// leaves alone, since another upper may share the directory.
var (
	workPrefix = rand.Text()[:12] + "."
	workCount  atomic.Uint64
)

// workName returns a new name for a file in the work directory.
func workName() string { return fmt.Sprintf("%s%x", workPrefix, workCount.Add(1)) }
