package kvlayer

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// Check implements overlay.Checker. It reads the whole segment, but for the
// bytes of chunks, past the cache.
func (l *Layer) Check(ctx context.Context) error {
	c := &checker{l: l, records: map[uint64]*record{}, entries: map[link]entry{}, chunks: map[digest]bool{}}
	if err := c.read(ctx); err != nil {
		return pathError("check", overlay.Root, err)
	}
	c.checkEntries()
	c.checkRecords()
	c.checkReach()
	c.checkSums()
	return errors.Join(c.broken...)
}

// A checker holds all of a segment, and what is wrong with it.
type checker struct {
	l       *Layer
	head    head
	records map[uint64]*record
	entries map[link]entry
	chunks  map[digest]bool // in the index
	broken  []error
}

// badf reports a broken invariant.
func (c *checker) badf(format string, args ...any) {
	c.broken = append(c.broken, fmt.Errorf("kvlayer: namespace %q, segment %q: "+format,
		append([]any{c.l.ns, c.l.opt.Segment}, args...)...))
}

// read reads the segment. A value that cannot be decoded ends the check: nothing
// else could be said with confidence.
func (c *checker) read(ctx context.Context) error {
	item, found, err := c.l.get(ctx, c.l.keys.head)
	if err != nil {
		return err
	}
	if c.head, err = c.l.decodeHead(item, found); err != nil {
		return err
	}
	prefix := len(c.l.keys.seg) + 1
	for kind, take := range map[byte]func(rest string, item kvstore.Item) error{
		kindRecord: func(_ string, item kvstore.Item) error {
			ino := lastNumber(item.Key)
			r, err := decodeRecord(ino, item.Value)
			c.records[ino] = r
			return err
		},
		kindEntry: func(rest string, item kvstore.Item) error {
			e, err := decodeEntry(item.Value)
			c.entries[link{dir: lastNumber(kvstore.Key(rest[:8])), name: rest[8:]}] = e
			return err
		},
		kindIndex: func(rest string, _ kvstore.Item) error {
			var d digest
			copy(d[:], rest)
			c.chunks[d] = true
			return nil
		},
	} {
		err := c.l.scan(ctx, c.l.keys.prefix(kind), func(item kvstore.Item) (bool, error) {
			rest := string(item.Key[prefix:])
			if len(rest) < 8 || take(rest, item) != nil {
				return false, c.l.corrupt("value", item.Key)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEntries: every entry is in a directory and leads to a file that knows
// it. Whiteouts of removed directories are left to Sweep.
func (c *checker) checkEntries() {
	for at, e := range c.entries {
		dir := c.records[at.dir]
		switch {
		case e.exists() && (dir == nil || !dir.isDir()):
			c.badf("entry %q is in %d, which is no directory", at.name, at.dir)
		case !e.exists():
		case c.records[e.ino] == nil:
			c.badf("entry %q in %d leads to %d, which does not exist", at.name, at.dir, e.ino)
		case c.records[e.ino].entry() != e:
			c.badf("entry %q in %d says %+v, the file is %+v", at.name, at.dir, e, c.records[e.ino].entry())
		}
	}
}

// checkRecords: every file has the names it says, and every directory as many
// files as it says; all chunks are there.
func (c *checker) checkRecords() {
	children, subdirs := map[uint64]uint64{}, map[uint64]uint64{}
	for at, e := range c.entries {
		if e.exists() {
			children[at.dir]++
		}
		if e.typ == overlay.TypeDir {
			subdirs[at.dir]++
		}
	}
	names := 0
	for ino, r := range c.records {
		names += len(r.links)
		for _, at := range r.links {
			if c.entries[at].ino != ino {
				c.badf("file %d says it is %q in %d, where there is %+v", ino, at.name, at.dir, c.entries[at])
			}
		}
		switch {
		case ino == rootIno && len(r.links) != 0, ino != rootIno && len(r.links) == 0, r.isDir() && len(r.links) > 1:
			c.badf("file %d has %d names", ino, len(r.links))
		case r.isDir() && (r.children != children[ino] || r.subdirs != subdirs[ino]):
			c.badf("directory %d says it has %d files and %d directories, it has %d and %d", ino, r.children, r.subdirs, children[ino], subdirs[ino])
		}
		for i, d := range r.chunks {
			if d != (digest{}) && !c.chunks[d] {
				c.badf("file %d lacks chunk %d, %x", ino, i, d)
			}
		}
		if r.version > c.head.commit {
			c.badf("file %d has version %d, the newest commit is %d", ino, r.version, c.head.commit)
		}
	}
	files := 0
	for _, e := range c.entries {
		if e.exists() {
			files++
		}
	}
	if names != files {
		c.badf("files say they have %d names, there are %d", names, files)
	}
}

// checkReach: from every directory the way up ends at the root.
func (c *checker) checkReach() {
	if r := c.records[rootIno]; r == nil || !r.isDir() {
		c.badf("no root directory")
		return
	}
	for ino, r := range c.records {
		if !r.isDir() {
			continue
		}
		up := ino
		for range len(c.records) + 1 {
			if up == rootIno || c.records[up] == nil || len(c.records[up].links) == 0 {
				break
			}
			up = c.records[up].links[0].dir
		}
		if up != rootIno {
			c.badf("directory %d cannot be reached from the root", ino)
		}
	}
}

// checkSums: the head has the sums of the records, and numbers beyond all.
func (c *checker) checkSums() {
	var bytes int64
	for _, r := range c.records {
		bytes += r.size
	}
	s := c.head.seg(c.l.opt.Segment)
	if s.bytes != bytes || s.files != uint64(len(c.records)) {
		c.badf("head says %d bytes in %d files, there are %d in %d", s.bytes, s.files, bytes, len(c.records))
	}
	var all int64
	for _, s := range c.head.segs {
		all += s.bytes
	}
	if c.head.bytes != all {
		c.badf("head says %d bytes, its segments have %d", c.head.bytes, all)
	}
	for ino := range c.records {
		if ino > s.ino {
			c.badf("file %d is beyond the largest number given, %d", ino, s.ino)
		}
	}
}
