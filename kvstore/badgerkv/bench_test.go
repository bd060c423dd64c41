package badgerkv_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// record is about what the commit of a short file takes: 300 bytes.
var record = make([]byte, 300)

// BenchmarkFsync is what the disk takes for a small durable write: the measure
// for BenchmarkApply in the same run.
func BenchmarkFsync(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	for b.Loop() {
		if _, err := file.Write(record); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchStore(b *testing.B, opt badgerkv.Options) *badgerkv.Store {
	b.Helper()
	s, err := badgerkv.Open(b.TempDir(), opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// commitOne applies the batch that appending a line to a short file takes: a
// check, its record, a history record and the commit number.
func commitOne(b *testing.B, s *badgerkv.Store, n int) {
	b.Helper()
	var batch kvstore.Batch
	batch.Put("namespace/file", record)
	batch.Put(kvstore.Key(fmt.Sprintf("namespace/history/%09d", n)), record)
	batch.Put("namespace/commit", fmt.Appendf(nil, "%d", n))
	if err := s.Apply(b.Context(), &batch); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkApply(b *testing.B) {
	s := benchStore(b, options())
	n := 0
	for b.Loop() {
		n++
		commitOne(b, s, n)
	}
}

// BenchmarkApplyParallel has eight writers: their batches share syncs.
func BenchmarkApplyParallel(b *testing.B) {
	s := benchStore(b, options())
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			commitOne(b, s, n)
		}
	})
}

func BenchmarkApplyNoSync(b *testing.B) {
	opt := options()
	opt.NoSync = true
	s := benchStore(b, opt)
	n := 0
	for b.Loop() {
		n++
		commitOne(b, s, n)
	}
}

// BenchmarkApplyLong writes values of 1 MiB, as chunks of long files.
func BenchmarkApplyLong(b *testing.B) {
	s := benchStore(b, options())
	b.SetBytes(1 << 20)
	value := make([]byte, 1<<20)
	n := 0
	for b.Loop() {
		n++
		var batch kvstore.Batch
		batch.Put(kvstore.Key(fmt.Sprintf("chunk/%06d", n)), value)
		if err := s.Apply(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b, options())
	commitOne(b, s, 1)
	for b.Loop() {
		if _, err := s.Get(b.Context(), "namespace/file"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetDuringApply reads while another goroutine commits without a pause:
// a read does not wait for the disk.
func BenchmarkGetDuringApply(b *testing.B) {
	s := benchStore(b, options())
	commitOne(b, s, 1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 2; ; n++ {
			select {
			case <-stop:
				return
			default:
				commitOne(b, s, n)
			}
		}
	}()
	for b.Loop() {
		if _, err := s.Get(b.Context(), "namespace/file"); err != nil {
			b.Fatal(err)
		}
	}
	close(stop)
	<-stopped
}

// BenchmarkOpen opens and closes an empty store.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := badgerkv.Open(dir, options())
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
