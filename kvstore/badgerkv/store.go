package badgerkv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/internal/feed"
)

var (
	_ kvstore.Store   = (*Store)(nil)
	_ kvstore.Watcher = (*Store)(nil)
)

// A Store is the store in one directory. Make it with Open.
type Store struct {
	dir  string     // immutable
	opt  Options    // immutable
	db   *badger.DB // immutable
	hold *holder    // immutable; released by Close
	feed feed.Feed

	// requests are the batches to commit. Closed by Close.
	requests chan *request
	// committed is closed when the committing goroutine has ended.
	committed chan struct{}
	committer committer // belongs to the committing goroutine
	tidier    tidier
	timeline  timeline

	// alive is held shared by calls that use db, exclusively by Close.
	alive  sync.RWMutex
	closed bool // protected by alive; never unset
}

// Open opens the store in dir, which is made if it does not exist. After an
// unclean stop everything that was acknowledged is there.
//
// The error is a *LockedError (kvstore.ErrLocked) while another Store has dir
// open, wraps kvstore.ErrCorrupt if files are damaged, and kvstore.ErrFull if
// the disk has no room to open the store.
func Open(dir string, opt Options) (*Store, error) {
	hold, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	s, err := open(dir, opt, hold)
	if err != nil {
		return nil, errors.Join(err, hold.release())
	}
	return s, nil
}

// open opens the store in dir, which hold holds.
func open(dir string, opt Options, hold *holder) (*Store, error) {
	if err := verify(dir, !opt.NoSync); err != nil {
		return nil, err
	}
	if err := clear(dir); err != nil {
		return nil, err
	}
	room := room{dir: dir, headroom: opt.headroom()}
	if err := room.prepare(); err != nil {
		return nil, err
	}
	db, err := badger.OpenManaged(badgerOptions(dir, opt))
	if err != nil {
		return nil, fmt.Errorf("badgerkv: open %s: %w", dir, err)
	}
	if err := room.adopt(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{
		dir:       dir,
		opt:       opt,
		db:        db,
		hold:      hold,
		requests:  make(chan *request),
		committed: make(chan struct{}),
		timeline:  timeline{last: db.MaxVersion(), readers: map[uint64]int{}},
	}
	s.committer = committer{store: s, room: room, last: db.MaxVersion(), nextBlob: db.MaxVersion() << 20}
	go s.commit()
	s.tidier.start(s)
	return s, nil
}

// enter begins a call. The caller must call s.alive.RUnlock if err is nil.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.alive.RLock()
	if s.closed {
		s.alive.RUnlock()
		return kvstore.ErrClosed
	}
	return nil
}

// view returns a transaction that reads what is durable now. The caller must
// call done.
func (s *Store) view() (txn *badger.Txn, done func()) {
	commit := s.timeline.begin()
	txn = s.db.NewTransactionAt(commit, false)
	return txn, func() {
		txn.Discard()
		s.timeline.end(commit)
	}
}

// Get returns the newest item of key.
func (s *Store) Get(ctx context.Context, key kvstore.Key) (kvstore.Item, error) {
	if err := key.Validate(); err != nil {
		return kvstore.Item{}, err
	}
	if err := s.enter(ctx); err != nil {
		return kvstore.Item{}, err
	}
	defer s.alive.RUnlock()
	txn, done := s.view()
	defer done()
	record, err := txn.Get(dataKey(key))
	if err != nil {
		return kvstore.Item{}, readError(err)
	}
	return load(txn, record)
}

// Scan calls fn for each item below prefix, as of the call.
func (s *Store) Scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.alive.RUnlock()
	txn, done := s.view()
	defer done()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: dataKey(prefix)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := load(txn, it.Item())
		if err != nil {
			return err
		}
		if err := fn(item); err != nil {
			return err
		}
	}
	return nil
}

// Watch calls fn for changes under prefix, as kvstore.Watcher says. All
// changes of the directory are this Store's, so none can be missed.
func (s *Store) Watch(ctx context.Context, prefix kvstore.Key, ready func(), fn func(kvstore.Key)) error {
	return s.feed.Watch(ctx, prefix, ready, fn)
}

// Close finishes running calls and closes the directory. Every later call is
// ErrClosed, and every running Watch ends with it. On a disk that is full to the
// last the directory stays locked until the process ends; nothing is lost.
func (s *Store) Close() error {
	s.alive.Lock()
	defer s.alive.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.tidier.end()
	close(s.requests)
	<-s.committed
	s.feed.Close()
	if err := s.committer.room.secureAll(); err != nil {
		// Closing badger would write its table in memory to a full disk and die
		// of it. All of it is in the log, which the next Open reads.
		s.opt.log().Warn("badgerkv: store left open until the process ends", "store", s.dir, "err", err)
		return nil
	}
	err := s.db.Close()
	if err != nil {
		err = fmt.Errorf("badgerkv: close %s: %w", s.dir, err)
	}
	return errors.Join(err, s.hold.release())
}
