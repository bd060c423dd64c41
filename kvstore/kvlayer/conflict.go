package kvlayer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// reconcile makes what the file holds fit on now, the newest version, by the
// first policy that can. The file is then dirty on top of now and has to be
// committed, or clean, if a sidecar was committed.
//
// Preconditions: f.write is held exclusively.
func (f *file) reconcile(ctx context.Context, now *record, mode commitMode) error {
	if now == nil {
		f.detach()
		return f.deliver(ctx, mode)
	}
	for _, p := range f.policies(mode) {
		fits, err := f.try(ctx, p, now)
		if err != nil || fits {
			return err
		}
	}
	return syscall.ESTALE
}

// policies are those to try; at release none of them may refuse.
func (f *file) policies(mode commitMode) []Policy {
	if mode == commitFlush {
		return f.l.opt.Conflict
	}
	fitting := slices.DeleteFunc(slices.Clone(f.l.opt.Conflict), func(p Policy) bool { return p == Fail })
	return append(fitting, Sidecar)
}

// try makes what the file holds fit on now by the policy p; fits is false if p
// cannot.
func (f *file) try(ctx context.Context, p Policy, now *record) (fits bool, err error) {
	switch p {
	case Append:
		return f.replay(ctx, now)
	case Merge:
		return f.merge(ctx, now)
	case Sidecar:
		return true, f.setAside(ctx, now)
	case Fail:
		return false, syscall.ESTALE
	}
	panic(fmt.Sprintf("BUG: kvlayer: policy %d", p))
}

// replay puts the bytes that were appended behind those of now.
func (f *file) replay(ctx context.Context, now *record) (fits bool, err error) {
	f.mu.Lock()
	appendOnly, from, to := f.appendOnly, f.tail, f.body.size
	f.mu.Unlock()
	if !appendOnly {
		return false, nil
	}
	g := f.l.newStandIn(now, f.name)
	if err := f.copyTo(ctx, g, from, to); err != nil {
		g.discard()
		return false, err
	}
	f.takeBody(g, now, now.size)
	return true, nil
}

// copyTo appends f's bytes [from, to) to g.
func (f *file) copyTo(ctx context.Context, g *file, from, to int64) error {
	buf := make([]byte, min(to-from, 1<<largeShift))
	for from < to {
		n := min(int64(len(buf)), to-from)
		if m, err := f.readAt(ctx, buf[:n], from); int64(m) < n {
			return err
		}
		if _, err := g.append(ctx, buf[:n]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// takeBody has f go on with the content of g on top of now.
func (f *file) takeBody(g *file, now *record, tail int64) {
	g.mu.Lock()
	b := g.body
	g.body = body{}
	g.dirty = false
	g.countLocked()
	g.mu.Unlock()

	f.mu.Lock()
	defer f.mu.Unlock()
	f.replaceBodyLocked(now, b, true)
	f.tail = tail
}

// maxMerge is the largest file that is merged, in bytes.
const maxMerge = 1 << 20

// merge joins what was changed since base, here and up to now.
func (f *file) merge(ctx context.Context, now *record) (fits bool, err error) {
	merged, fits, err := f.merged(ctx, now)
	if err != nil || !fits {
		return false, err
	}
	g := f.l.newStandIn(now, f.name)
	if err := g.rewrite(ctx, merged); err != nil {
		g.discard()
		return false, err
	}
	f.takeBody(g, now, 0)
	f.mu.Lock()
	f.appendOnly = false
	f.mu.Unlock()
	return true, nil
}

// merged returns the three-way merge of base, f and now.
func (f *file) merged(ctx context.Context, now *record) (text []byte, fits bool, err error) {
	f.mu.Lock()
	base, size := f.base.content, f.body.size
	f.mu.Unlock()
	if max(base.size, size, now.size) > maxMerge {
		return nil, false, nil
	}
	mine := make([]byte, size)
	if n, err := f.readAt(ctx, mine, 0); int64(n) < size {
		return nil, false, err
	}
	was, theirs := make([]byte, base.size), make([]byte, now.size)
	if err := f.l.readContent(ctx, base, was, 0); err != nil {
		return nil, false, err
	}
	if err := f.l.readContent(ctx, now.content, theirs, 0); err != nil {
		return nil, false, err
	}
	text, fits = merge3(was, mine, theirs)
	return text, fits, nil
}

// rewrite makes text all that the file holds.
func (f *file) rewrite(ctx context.Context, text []byte) error {
	if err := f.truncate(ctx, 0); err != nil {
		return err
	}
	_, err := f.overwrite(ctx, text, 0)
	return err
}

// setAside writes what the file holds to a sidecar, and has the file go on,
// clean, from now.
func (f *file) setAside(ctx context.Context, now *record) error {
	if err := f.writeSidecar(ctx, now); err != nil {
		return err
	}
	f.advance(now)
	return nil
}

// writeSidecar commits what the file holds to a new file beside like, with the
// same owner, mode and attributes.
func (f *file) writeSidecar(ctx context.Context, like *record) error {
	var at link
	err := f.l.putContent(ctx, f.layOutOld, func(t *tx, c content) error {
		var err error
		if at, err = f.sidecarPlace(t, like); err != nil {
			return err
		}
		r := like.clone()
		r.links, r.origin = nil, 0
		r.content, r.version = c, t.n
		r.mtime, r.ctime = t.now, t.now
		t.create(r)
		if err := t.place(at, r); err != nil {
			return err
		}
		t.log(OpCreate, at, r)
		return nil
	})
	if err != nil {
		return errnoOf(err)
	}
	f.l.opt.Log.Warn("kvlayer: conflict: this side is kept in a sidecar",
		"ns", f.l.ns, "segment", f.l.opt.Segment, "name", f.name, "sidecar", at.name)
	f.l.watches.tell(at.dir, at.name)
	return nil
}

// sidecarPlace returns a free name beside like's; in the root directory if
// like's directory is gone.
func (f *file) sidecarPlace(t *tx, like *record) (link, error) {
	at := link{dir: rootIno, name: f.name.Base()}
	if len(like.links) > 0 {
		at = like.links[0]
		dir, err := t.record(at.dir)
		if err != nil {
			return at, err
		}
		if dir == nil {
			at.dir = rootIno
		}
	}
	name := at.name
	for n := 0; ; n++ {
		at.name = sidecarName(name, f.l.opt.Host, t.now.UTC().Format("20060102T150405Z"), n)
		e, err := t.entry(at)
		if err != nil || e == (entry{}) {
			return at, err
		}
	}
}

// sidecarName is NAME.conflict-HOST-TIME, with a number if n is not 0, and
// with NAME cut where the whole would be too long.
func sidecarName(name, host, at string, n int) string {
	host = strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, host)
	suffix := ".conflict-" + host[:min(len(host), 64)] + "-" + at
	if n > 0 {
		suffix += fmt.Sprintf("-%d", n)
	}
	return name[:min(len(name), overlay.MaxComponent-len(suffix))] + suffix
}

// detach has the file live on without its name, which somebody else removed.
func (f *file) detach() {
	f.detached = true
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if f.orphan == nil {
		f.mu.Lock()
		base := f.base
		f.mu.Unlock()
		f.l.orphanLocked(f, base)
	}
}

// deliver brings what a detached file holds to where it is not lost: to the
// file that took its name, as when another editor saved by renaming, or to a
// sidecar. The handle keeps its content.
//
// Preconditions: f.write is held exclusively.
func (f *file) deliver(ctx context.Context, mode commitMode) error {
	f.mu.Lock()
	last := f.base
	f.mu.Unlock()
	successor, err := f.successor(ctx, last)
	if err != nil {
		return err
	}
	delivered := false
	for _, p := range f.policies(mode) {
		switch {
		case p == Fail:
			return syscall.ESTALE
		case p == Sidecar:
			delivered, err = true, f.writeSidecar(ctx, last)
		case successor != nil:
			delivered, err = f.deliverTo(ctx, p, successor, mode)
		}
		if err != nil {
			return err
		}
		if delivered {
			f.settled()
			return nil
		}
	}
	return syscall.ESTALE
}

// successor returns the regular file that now has the name of last, nil if
// there is none.
func (f *file) successor(ctx context.Context, last *record) (*record, error) {
	if len(last.links) == 0 {
		return nil, nil
	}
	if err := f.l.reload(ctx); err != nil {
		return nil, err
	}
	e, err := f.l.entry(ctx, last.links[0])
	if err != nil || e.typ != overlay.TypeReg {
		return nil, err
	}
	return f.l.record(ctx, e.ino)
}

// deliverTo commits to the file now what f has that now lacks.
func (f *file) deliverTo(ctx context.Context, p Policy, now *record, mode commitMode) (fits bool, err error) {
	g := f.l.newStandIn(now, f.name)
	defer g.discard()
	switch p {
	case Append:
		f.mu.Lock()
		appendOnly, from, to := f.appendOnly, f.tail, f.body.size
		f.mu.Unlock()
		if !appendOnly {
			return false, nil
		}
		err = f.copyTo(ctx, g, from, to)
	case Merge:
		var text []byte
		if text, fits, err = f.merged(ctx, now); err != nil || !fits {
			return false, err
		}
		err = g.rewrite(ctx, text)
	}
	if err == nil {
		err = g.flush(ctx, mode)
	}
	return err == nil, err
}

// settled notes that all of a detached file is in the store.
func (f *file) settled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = false
	f.countLocked()
}

// tell reports that the file's content is not what its handles wrote.
func (f *file) tell() {
	f.mu.Lock()
	links := f.base.links
	f.mu.Unlock()
	for _, at := range links {
		f.l.watches.tell(at.dir, at.name)
	}
}
