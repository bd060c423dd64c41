package kvlayer

import (
	"math"
	"time"
)

// A commitInfo is what is kept of each commit of the segment.
type commitInfo struct {
	when    time.Time
	owner   string
	host    string
	session string
	who     string
	stamp   uint64
	touched []touch
}

// A touch is a place where a commit changed what a name is or what its file
// holds. self is set where the attributes of a directory changed: its number.
type touch struct {
	link
	self uint64
}

func (c commitInfo) encode() []byte {
	e := newEncoder(96)
	e.time(c.when)
	e.string(c.owner)
	e.string(c.host)
	e.string(c.session)
	e.string(c.who)
	e.uint(c.stamp)
	e.uint(uint64(len(c.touched)))
	for _, t := range c.touched {
		e.uint(t.dir)
		e.string(t.name)
		e.uint(t.self)
	}
	return e.b
}

func decodeCommitInfo(b []byte) (commitInfo, error) {
	d := newDecoder(b)
	c := commitInfo{when: d.time(), owner: d.string(), host: d.string(), session: d.string(), who: d.string(), stamp: d.uint()}
	for range d.count(3) {
		c.touched = append(c.touched, touch{link: link{dir: d.uint(), name: d.string()}, self: d.uint()})
	}
	return c, d.end()
}

// An Op says what a commit did at a name.
type Op uint8

const (
	OpCreate Op = iota + 1 // the file was made, empty or as a copy of a lower one
	OpWrite                // its content changed
	OpRename               // the file came here from another name
	OpLink                 // the file got this name besides others
	OpRemove               // the name is gone
)

// String returns what happened in a word.
func (o Op) String() string {
	names := [...]string{OpCreate: "create", OpWrite: "write", OpRename: "rename", OpLink: "link", OpRemove: "remove"}
	if int(o) < len(names) && names[o] != "" {
		return names[o]
	}
	return "unknown"
}

// A Version is a commit seen from one name.
type Version struct {
	Commit  uint64 // AsOf(Commit) shows it
	Op      Op
	When    time.Time
	Host    string
	Session string
	Who     string
	// Path is the whole name, as it was then.
	Path string
	Size int64 // bytes; 0 after OpRemove
	// Digest names the content: equal digests, equal bytes. Zero after
	// OpRemove and for what is not a regular file.
	Digest [32]byte
}

func (v Version) encode() []byte {
	e := newEncoder(128)
	e.uint(uint64(v.Op))
	e.time(v.When)
	e.string(v.Host)
	e.string(v.Session)
	e.string(v.Who)
	e.string(v.Path)
	e.uint(uint64(v.Size))
	e.b = append(e.b, v.Digest[:]...)
	return e.b
}

func decodeVersion(commit uint64, b []byte) (Version, error) {
	d := newDecoder(b)
	v := Version{Commit: commit, Op: Op(d.uint32(math.MaxUint8)), When: d.time()}
	v.Host, v.Session, v.Who, v.Path = d.string(), d.string(), d.string(), d.string()
	v.Size = int64(d.uint())
	copy(v.Digest[:], d.take(uint64(len(v.Digest))))
	return v, d.end()
}
