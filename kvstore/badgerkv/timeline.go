package badgerkv

import "sync"

// A timeline says which commit readers see: the last one that is durable. So a
// reader never waits for a commit that is being written, never sees one that
// then fails, and two commits are never seen in part.
type timeline struct {
	mu sync.Mutex // a leaf
	// last is the number of the last durable commit. Protected by mu.
	last uint64
	// readers counts who reads as of a commit. Protected by mu.
	readers map[uint64]int
}

// begin returns the commit as of which a reader reads until it calls end.
func (t *timeline) begin() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[t.last]++
	return t.last
}

// end tells that a reader as of commit has ended.
func (t *timeline) end(commit uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readers[commit]--; t.readers[commit] == 0 {
		delete(t.readers, commit)
	}
}

// advance makes commit the last durable one.
func (t *timeline) advance(commit uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = commit
}

// now returns the last durable commit.
func (t *timeline) now() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// oldest returns the first commit that anybody reads, or will read, as of.
// What was overwritten up to it is of no use any more.
func (t *timeline) oldest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.last
	for commit := range t.readers {
		oldest = min(oldest, commit)
	}
	return oldest
}
