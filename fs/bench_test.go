//go:build linux

package fs_test

import (
	"fmt"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// BenchmarkRequests times the handlers without a kernel: what is theirs on files
// in memory, and the whole on files on disk.
func BenchmarkRequests(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) { benchmarkRequests(b, k) })
	}
}

func benchmarkRequests(b *testing.B, k kind) {
	f := fs.New(k.layer(b, seed{"a/", 0o755, ""}, seed{"a/b/", 0o755, ""}, seed{"a/b/project", 0o644, "text"}), fs.Options{})
	f.Init(nil)
	cancel := make(chan struct{})
	dir := uint64(1)
	for _, name := range []string{"a", "b"} {
		dir = look(b, f, dir, name).NodeId
	}
	in := fuse.CreateIn{InHeader: fuse.InHeader{NodeId: dir}, Flags: 1, Mode: 0o644}
	var created fuse.CreateOut
	check(b, f.Create(cancel, &in, "file", &created))
	f.Release(cancel, &fuse.ReleaseIn{Fh: created.Fh})
	file := created.NodeId
	below := look(b, f, dir, "project").NodeId

	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		header, out := fuse.InHeader{NodeId: dir}, fuse.EntryOut{}
		for b.Loop() {
			f.Lookup(cancel, &header, "file", &out)
		}
	})
	b.Run("absent", func(b *testing.B) {
		b.ReportAllocs()
		header, out := fuse.InHeader{NodeId: dir}, fuse.EntryOut{}
		for b.Loop() {
			f.Lookup(cancel, &header, "none", &out)
		}
	})
	b.Run("getattr", func(b *testing.B) {
		b.ReportAllocs()
		in, out := fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: file}}, fuse.AttrOut{}
		for b.Loop() {
			f.GetAttr(cancel, &in, &out)
		}
	})
	b.Run("open and release", func(b *testing.B) {
		b.ReportAllocs()
		in, out := fuse.OpenIn{InHeader: fuse.InHeader{NodeId: file}}, fuse.OpenOut{}
		for b.Loop() {
			f.Open(cancel, &in, &out)
			f.Release(cancel, &fuse.ReleaseIn{Fh: out.Fh})
		}
	})
	b.Run("open and release of the project", func(b *testing.B) {
		b.ReportAllocs()
		in, out := fuse.OpenIn{InHeader: fuse.InHeader{NodeId: below}}, fuse.OpenOut{}
		for b.Loop() {
			f.Open(cancel, &in, &out)
			f.Release(cancel, &fuse.ReleaseIn{Fh: out.Fh})
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 4096)
		for b.Loop() {
			f.ReadDirPlus(cancel, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: dir}}, fuse.NewDirEntryList(buf, 0))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		out, buf := fuse.OpenOut{}, make([]byte, 4096)
		check(b, f.Open(cancel, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: file}}, &out))
		in := fuse.ReadIn{InHeader: fuse.InHeader{NodeId: file}, Fh: out.Fh, Size: 4096}
		for b.Loop() {
			f.Read(cancel, &in, buf)
		}
	})
}

// BenchmarkNode reports the memory of a node that the kernel has looked up.
func BenchmarkNode(b *testing.B) {
	const count = 100_000
	var layer overlay.Layer = many{memTree(b, seed{"file", 0o644, ""})}
	for b.Loop() {
		f := fs.New(layer, fs.Options{})
		f.Init(nil)
		before := heap()
		for i := range count {
			look(b, f, 1, fmt.Sprintf("some_file_name_%d.go", i))
		}
		b.ReportMetric(float64(heap()-before)/count, "B/node")
		if f.Stats().Nodes < count {
			b.Fatal("nodes are missing")
		}
	}
}

// many is a layer whose root shows one file under every name.
type many struct{ overlay.Layer }

func (m many) Lstat(ctx ctx, name overlay.Name) (overlay.Attr, error) {
	if name == overlay.Root {
		return m.Layer.Lstat(ctx, name)
	}
	a, err := m.Layer.Lstat(ctx, "file")
	a.Ino += uint64(len(name)) << 32
	return a, err
}

func look(t testing.TB, f *fs.FS, dir uint64, name string) (out fuse.EntryOut) {
	t.Helper()
	check(t, f.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, &out))
	return out
}

func check(t testing.TB, st fuse.Status) {
	t.Helper()
	if !st.Ok() {
		t.Fatal(st)
	}
}
