package transport

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPlacement(t *testing.T) {
	t.Parallel()
	idle := []load{{wait: 2 * time.Millisecond, turns: 1000}, {wait: 0, turns: 900}}
	busy := []load{{wait: 2 * time.Millisecond, turns: 1000}, {wait: 10 * time.Millisecond, turns: 4}}
	few := []load{{wait: 100 * time.Microsecond, turns: 1}}
	var p placement
	now := time.Duration(0)
	for _, step := range []struct {
		what  string
		after time.Duration
		loads []load
		want  bool
	}{
		{"busy from the start", 0, busy, false},
		{"idle CPUs", period, idle, true},
		{"one long wait of few", period, few, true},
		{"a program computes", period, busy, false},
		{"idle again, too early", period, idle, false},
		{"time to try", shortTrial, idle, true},
		{"still computing", period, busy, false},
		{"the pause is longer now", shortTrial, idle, false},
		{"busy when it is over", shortTrial, busy, false},
		{"idle", period, idle, true},
		{"held", 3 * shortTrial, idle, true},
		{"a new program computes", period, busy, false},
		{"and the pause is short again", shortTrial, idle, true},
	} {
		for range step.after / period {
			now += period
			if step.what == "held" {
				p.next(now, step.loads)
			}
		}
		if got := p.next(now, step.loads); got != step.want {
			t.Errorf("%s: pinned %v, want %v", step.what, got, step.want)
		}
	}
}

// TestReadersArePinnedAndLetGo checks the threads, not the speed: pinning is
// tried when requests come, and a reader's thread ends up where it was told.
func TestReadersArePinnedAndLetGo(t *testing.T) {
	t.Parallel()
	s := serve(t, newTestFS(), Options{})
	dir := s.Mountpoint()
	eventually(t, "readers have threads", func() bool {
		loads, _ := s.crew.loadsSince(nil)
		_, after := s.crew.loadsSince(nil)
		return loads == nil && len(after) == len(s.cpus)
	})
	cpusOf := func() (all []int) {
		s.crew.mu.Lock()
		defer s.crew.mu.Unlock()
		for _, r := range s.crew.readers {
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(r.tid, &set); err == nil {
				all = append(all, set.Count())
			}
		}
		return all
	}
	for _, pin := range []bool{true, false} {
		want := 1
		if !pin {
			want = len(allowedCPUs())
		}
		// The crew places its readers as well, so it may take another try.
		eventually(t, fmt.Sprintf("readers on %d CPUs after pinAll(%v)", want, pin), func() bool {
			s.crew.pinAll(pin)
			return !slices.ContainsFunc(cpusOf(), func(n int) bool { return n != want })
		})
		var st unix.Stat_t
		if err := unix.Stat(dir+"/file", &st); err != nil {
			t.Errorf("Stat: %v", err)
		}
	}
}
