package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

// accounts is how many accounts the bank has, each with 100 at first.
const accounts = 8

func account(i int) kvstore.Key { return kvstore.Key(fmt.Sprintf("bank/%d", i)) }

// testBank has tellers move money between accounts with compare-and-set, while
// auditors check that every moment has the same total.
func testBank(t *testing.T, s kvstore.Store) {
	apply(t, s, func(b *kvstore.Batch) {
		for i := range accounts {
			b.Put(account(i), []byte("100"))
		}
	})
	var tellers, auditors sync.WaitGroup
	closing := make(chan struct{})
	for id := range 4 {
		tellers.Go(func() { teller(t, s, rand.New(rand.NewPCG(uint64(id), 1)), 60) })
	}
	for range 2 {
		auditors.Go(func() { auditor(t, s, closing) })
	}
	tellers.Wait()
	close(closing)
	auditors.Wait()
}

// teller makes n transfers; a conflict is tried again.
func teller(t *testing.T, s kvstore.Store, r *rand.Rand, n int) {
	for n > 0 {
		from, to := r.IntN(accounts), r.IntN(accounts)
		if from == to {
			continue
		}
		switch err := transfer(t, s, from, to, 1+r.IntN(20)); {
		case err == nil:
			n--
		case !errors.Is(err, kvstore.ErrConflict):
			t.Errorf("transfer: got %v, want nil or ErrConflict", err)
			return
		}
	}
}

// transfer moves amount, as far as the account has it.
func transfer(t *testing.T, s kvstore.Store, from, to, amount int) error {
	var b kvstore.Batch
	for _, step := range []struct{ account, sign int }{{from, -1}, {to, 1}} {
		item, err := s.Get(t.Context(), account(step.account))
		if err != nil {
			return err
		}
		balance, err := strconv.Atoi(string(item.Value))
		if err != nil {
			return err
		}
		if step.sign < 0 {
			amount = min(amount, balance)
		}
		b.Check(item.Key, item.Version)
		b.Put(item.Key, []byte(strconv.Itoa(balance+step.sign*amount)))
	}
	return s.Apply(t.Context(), &b)
}

// auditor adds up all accounts until closing, and once more.
func auditor(t *testing.T, s kvstore.Store, closing chan struct{}) {
	for last := false; !last; {
		select {
		case <-closing:
			last = true
		default:
		}
		total := 0
		err := s.Scan(t.Context(), "bank/", func(item kvstore.Item) error {
			balance, err := strconv.Atoi(string(item.Value))
			total += balance
			return err
		})
		if err != nil || total != accounts*100 {
			t.Errorf("total of all accounts: got %d, %v, want %d", total, err, accounts*100)
			return
		}
	}
}

// testCounter has goroutines increment one key with compare-and-set and a log
// without: no increment is lost, and each version is seen once.
func testCounter(t *testing.T, s kvstore.Store) {
	const workers, each = 4, 40
	put(t, s, "counter", "0")
	var wg sync.WaitGroup
	for id := range workers {
		wg.Go(func() {
			for i := range each {
				if err := increment(t, s, kvstore.Key(fmt.Sprintf("log/%d/%d", id, i))); err != nil {
					t.Errorf("increment: got %v, want nil", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := string(get(t, s, "counter").Value); got != strconv.Itoa(workers*each) {
		t.Errorf("counter after %d increments: got %s", workers*each, got)
	}
	items, err := scan(t.Context(), s, "log/")
	if err != nil || len(items) != workers*each {
		t.Fatalf("log after %d increments: got %d entries, %v", workers*each, len(items), err)
	}
	seen := map[string]kvstore.Key{}
	for _, item := range items {
		if other, twice := seen[string(item.Value)]; twice {
			t.Errorf("%s and %s both counted to %s", item.Key, other, item.Value)
		}
		seen[string(item.Value)] = item.Key
	}
}

// increment counts one up and notes in log to what.
func increment(t *testing.T, s kvstore.Store, log kvstore.Key) error {
	for {
		item, err := s.Get(t.Context(), "counter")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			return err
		}
		next := []byte(strconv.Itoa(n + 1))
		var b kvstore.Batch
		b.Put("counter", next)
		b.Put(log, next)
		b.Check("counter", item.Version)
		if err := s.Apply(t.Context(), &b); !errors.Is(err, kvstore.ErrConflict) {
			return err
		}
	}
}

// testClosedInUse closes a store that goroutines use in every way: each of them
// gets ErrClosed in the end, and nothing else before.
func testClosedInUse(t *testing.T, s kvstore.Store) {
	uses := []func(n int) error{
		func(n int) error {
			var b kvstore.Batch
			b.Put(kvstore.Key(fmt.Sprint("k", n%50)), make([]byte, 1000))
			return s.Apply(t.Context(), &b)
		},
		func(n int) error {
			_, err := s.Get(t.Context(), kvstore.Key(fmt.Sprint("k", n%50)))
			if errors.Is(err, kvstore.ErrNotFound) {
				return nil
			}
			return err
		},
		func(int) error {
			_, err := scan(t.Context(), s, "")
			return err
		},
	}
	if w, ok := s.(kvstore.Watcher); ok {
		uses = append(uses, func(int) error { return w.Watch(t.Context(), "", nil, func(kvstore.Key) {}) })
	}
	var wg sync.WaitGroup
	started := make(chan struct{}, 2*len(uses))
	for i := range 2 * len(uses) {
		wg.Go(func() {
			use := uses[i%len(uses)]
			started <- struct{}{}
			for n := 0; ; n++ {
				switch err := use(n); {
				case errors.Is(err, kvstore.ErrClosed):
					return
				case err != nil:
					t.Errorf("use of a store that is closed meanwhile: got %v, want nil or ErrClosed", err)
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: got %v, want nil", err)
	}
	wg.Wait()
}
