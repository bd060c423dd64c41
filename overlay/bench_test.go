package overlay_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// deep returns an Overlay of n frozen layers, each of which changed the
// directory wide, over a project with a directory of its own, narrow.
func deep(b *testing.B, n int) *overlay.Overlay {
	b.Helper()
	project := memlayer.New(memlayer.Options{})
	mkdir(b, project, "narrow", "narrow/sub", "wide")
	for i := range 100 {
		write(b, project, overlay.Name(fmt.Sprintf("narrow/sub/f%d", i)), "x")
		write(b, project, overlay.Name(fmt.Sprintf("wide/f%d", i)), "x")
	}
	lowers := []overlay.Reader{project}
	for i := range n {
		l := memlayer.New(memlayer.Options{})
		write(b, overlay.New(l, lowers...), overlay.Name(fmt.Sprintf("wide/n%d", i)), "x")
		lowers = append([]overlay.Reader{l}, lowers...)
	}
	return overlay.New(memlayer.New(memlayer.Options{}), lowers...)
}

// layers runs fn with stacks of several heights.
func layers(b *testing.B, fn func(b *testing.B, o *overlay.Overlay)) {
	for _, n := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("layers=%d", n), func(b *testing.B) {
			o := deep(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			fn(b, o)
		})
	}
}

// BenchmarkLstat looks up a file of a directory that the project alone has.
func BenchmarkLstat(b *testing.B) {
	layers(b, func(b *testing.B, o *overlay.Overlay) {
		for b.Loop() {
			if _, err := o.Lstat(b.Context(), "narrow/sub/f7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLstatWide looks up a file of the project in a directory that all
// layers have.
func BenchmarkLstatWide(b *testing.B) {
	layers(b, func(b *testing.B, o *overlay.Overlay) {
		for b.Loop() {
			if _, err := o.Lstat(b.Context(), "wide/f7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReadDir lists a directory that the project alone has.
func BenchmarkReadDir(b *testing.B) {
	layers(b, func(b *testing.B, o *overlay.Overlay) {
		for b.Loop() {
			if _, err := o.ReadDir(b.Context(), "narrow/sub"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReadDirWide lists a directory that all layers have.
func BenchmarkReadDirWide(b *testing.B) {
	layers(b, func(b *testing.B, o *overlay.Overlay) {
		for b.Loop() {
			if _, err := o.ReadDir(b.Context(), "wide"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCreate makes and removes files in new directories, one for each
// goroutine.
func BenchmarkCreate(b *testing.B) {
	o := deep(b, 1)
	var next atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		dir := overlay.Name(fmt.Sprintf("d%d", next.Add(1)))
		mkdir(b, o, dir)
		for pb.Next() {
			h, err := o.OpenFile(b.Context(), dir.Join("f"), overlay.Create|overlay.Excl, overlay.Perm{Mode: 0o644})
			if err != nil {
				b.Error(err)
				return
			}
			h.Close()
			if err := o.Remove(b.Context(), dir.Join("f")); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
