package kvlayer

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
)

// How content is cut. Small chunks keep an append to a file of some hundred
// KiB cheap, also in history; large ones keep the record of a large file small.
const (
	maxInline  = 4 << 10
	smallShift = 16      // 64 KiB
	largeShift = 20      // 1 MiB
	smallFile  = 4 << 20 // the largest file in small chunks

	// MaxFile is the largest file, in bytes: its record has to fit in a value
	// twice in a batch. EFBIG over it.
	MaxFile = 16 << 30
)

// chunkShift is content.shift of a file of size bytes.
func chunkShift(size int64) uint8 {
	switch {
	case size <= maxInline:
		return 0
	case size <= smallFile:
		return smallShift
	}
	return largeShift
}

// chunkCount is how many chunks a file of size bytes has.
func chunkCount(size int64, shift uint8) int64 {
	return (size + 1<<shift - 1) >> shift
}

// A chunkCache holds chunks that were used lately. A chunk never changes.
type chunkCache struct {
	mu    sync.Mutex
	byKey map[digest]*list.Element // of order; protected by mu
	order list.List                // of cachedChunk, the latest first; protected by mu
	bytes int                      // in all; protected by mu
}

type cachedChunk struct {
	d digest
	b []byte
}

const maxCachedChunks = 16 << 20 // bytes

// get returns the chunk d, nil if it is not cached. It must not be changed.
func (c *chunkCache) get(d digest) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[d]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(cachedChunk).b
}

// put caches b, which nobody changes any more, as the chunk d.
func (c *chunkCache) put(d digest, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[d] != nil {
		return
	}
	if c.byKey == nil {
		c.byKey = map[digest]*list.Element{}
	}
	c.byKey[d] = c.order.PushFront(cachedChunk{d, b})
	c.bytes += len(b)
	for c.bytes > maxCachedChunks {
		last := c.order.Remove(c.order.Back()).(cachedChunk)
		delete(c.byKey, last.d)
		c.bytes -= len(last.b)
	}
}

// chunk returns the chunk d. The caller must not change it.
func (l *Layer) chunk(ctx context.Context, d digest) ([]byte, error) {
	if b := l.chunks.get(d); b != nil {
		return b, nil
	}
	item, found, err := l.get(ctx, l.keys.chunk(d))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, l.corrupt("file: chunk is missing", l.keys.chunk(d))
	case sha256.Sum256(item.Value) != d:
		return nil, l.corrupt("chunk", item.Key)
	}
	l.chunks.put(d, item.Value)
	return item.Value, nil
}

// readContent fills p with the bytes of c from off on, zeros behind the end.
func (l *Layer) readContent(ctx context.Context, c content, p []byte, off int64) error {
	if over := off + int64(len(p)) - c.size; over > 0 {
		in := max(0, int64(len(p))-over)
		clear(p[in:])
		p = p[:in]
	}
	if c.shift == 0 {
		if len(p) > 0 {
			copy(p, c.inline[off:])
		}
		return nil
	}
	for len(p) > 0 {
		i, at := off>>c.shift, off&(1<<c.shift-1)
		n := min(int64(len(p)), 1<<c.shift-at)
		if err := l.readChunk(ctx, c.chunks[i], p[:n], at); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// readChunk fills p with the bytes of the chunk d from at on.
func (l *Layer) readChunk(ctx context.Context, d digest, p []byte, at int64) error {
	if d == (digest{}) {
		clear(p)
		return nil
	}
	b, err := l.chunk(ctx, d)
	if err != nil {
		return err
	}
	if at+int64(len(p)) > int64(len(b)) {
		return l.corrupt("file: chunk is short", l.keys.chunk(d))
	}
	copy(p, b[at:])
	return nil
}

// An uploader puts chunks into the store before the commit that refers to
// them: after a crash in between they are unreferenced, and swept. The last
// ones ride in the commit's own batch.
type uploader struct {
	l      *Layer
	ctx    context.Context
	sweeps uint64 // segHead.sweeps when it began
	ops    []kvstore.Op
	bytes  int
	have   map[digest]bool // uploaded or seen in the store
	// doubts: the chunks that layOut is told to reuse may not be in the store
	// any more, because they are of a version that is not the newest.
	doubts bool
}

const (
	maxUpload = 3 << 20 // bytes in a batch of chunks
	maxRide   = 1 << 20 // bytes that ride along
	// minProbe is the size from which on it is cheaper to ask whether the
	// store holds a chunk already than to send it.
	minProbe = 32 << 10
)

// errSwept: chunks were swept since an upload began; some may be gone again.
var errSwept = errors.New("kvlayer: swept meanwhile")

var zeros [1 << largeShift]byte

// add uploads the chunk b, which the uploader may keep, and returns its digest.
func (u *uploader) add(b []byte) (digest, error) {
	if bytes.Equal(b, zeros[:len(b)]) {
		return digest{}, nil
	}
	d := digest(sha256.Sum256(b))
	if u.have[d] {
		return d, nil
	}
	if len(b) >= minProbe {
		found, err := u.probe(d)
		if err != nil || found {
			return d, err
		}
	}
	if u.bytes+len(b) > maxUpload {
		if err := u.send(); err != nil {
			return d, err
		}
	}
	u.have[d] = true
	u.ops = append(u.ops,
		kvstore.Op{Kind: kvstore.OpPut, Key: u.l.keys.chunk(d), Value: b},
		kvstore.Op{Kind: kvstore.OpPut, Key: u.l.keys.index(d), Value: []byte{format}})
	u.bytes += len(b)
	u.l.chunks.put(d, b)
	return d, nil
}

// probe reports whether the store holds the chunk d.
func (u *uploader) probe(d digest) (found bool, err error) {
	if u.have[d] {
		return true, nil
	}
	_, found, err = u.l.get(u.ctx, u.l.keys.index(d))
	u.have[d] = found
	return found, err
}

// confirm returns EIO if the chunk d, which is to be reused, was swept: no file
// may refer to it. That happens only to a layer that could not renew its lease.
func (u *uploader) confirm(d digest) error {
	if !u.doubts || d == (digest{}) {
		return nil
	}
	found, err := u.probe(d)
	if err == nil && !found {
		u.l.opt.Log.Error("kvlayer: content of an old version is gone", "ns", u.l.ns, "segment", u.l.opt.Segment, "chunk", d[:])
		err = syscall.EIO
	}
	return err
}

// send puts what has gathered into the store. It does not matter if the store
// took it and did not say so: the same bytes have the same key.
func (u *uploader) send() error {
	err := u.l.apply(u.ctx, &kvstore.Batch{Ops: u.ops})
	u.ops, u.bytes = nil, 0
	if errors.Is(err, errUnknown) {
		return syscall.EIO
	}
	return err
}

// layOut cuts size bytes into content. read fills a slice from an offset on;
// reuse returns the digest of a chunk that need not be read.
func (u *uploader) layOut(size int64, read func(p []byte, off int64) error, reuse func(i int64, shift uint8) (digest, bool)) (content, error) {
	c := content{size: size, shift: chunkShift(size)}
	if c.shift == 0 {
		c.inline = make([]byte, size)
		return c, read(c.inline, 0)
	}
	c.chunks = make([]digest, chunkCount(size, c.shift))
	for i := range c.chunks {
		off := int64(i) << c.shift
		if d, ok := reuse(int64(i), c.shift); ok {
			if err := u.confirm(d); err != nil {
				return c, err
			}
			c.chunks[i] = d
			continue
		}
		b := make([]byte, min(1<<c.shift, size-off))
		if err := read(b, off); err != nil {
			return c, err
		}
		var err error
		if c.chunks[i], err = u.add(b); err != nil {
			return c, err
		}
	}
	if u.bytes > maxRide {
		return c, u.send()
	}
	return c, nil
}

// An upload is content whose chunks are in the store or on their way.
type upload struct {
	*uploader
	content content
}

// upload has lay cut content.
func (l *Layer) upload(ctx context.Context, lay func(*uploader) (content, error)) (upload, error) {
	u := &uploader{l: l, ctx: ctx, have: map[digest]bool{}}
	l.mu.Lock()
	known := l.cache.known
	l.mu.Unlock()
	if !known {
		if err := l.reload(ctx); err != nil {
			return upload{}, err
		}
	}
	l.mu.Lock()
	u.sweeps = l.cache.head.seg(l.opt.Segment).sweeps
	l.mu.Unlock()
	c, err := lay(u)
	return upload{u, c}, err
}

// putContent commits content: put writes the records that refer to it.
func (l *Layer) putContent(ctx context.Context, lay func(*uploader) (content, error), put func(*tx, content) error) error {
	for {
		up, err := l.upload(ctx, lay)
		if err != nil {
			return err
		}
		if err := l.commitUpload(ctx, up, put); !errors.Is(err, errSwept) {
			return err
		}
	}
}

// commitUpload makes one change that refers to up. errSwept: upload it again.
func (l *Layer) commitUpload(ctx context.Context, up upload, put func(*tx, content) error) error {
	return l.update(ctx, func(t *tx) error {
		if t.seg.sweeps != up.sweeps {
			return errSwept
		}
		t.puts = up.ops
		return put(t, up.content)
	})
}
