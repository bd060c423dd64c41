//go:build linux

package fs_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/kvlayer"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/disklayer"
	"github.com/wsfs/wsfs/router"
)

func init() {
	kinds = append(kinds, kind{"disk", func(t testing.TB, project ...seed) overlay.Layer {
		tree, _ := diskTree(t, project...)
		return tree
	}})
}

// diskTree returns a tree on disk over a project on disk, and the project's
// directory.
func diskTree(t testing.TB, project ...seed) (overlay.Layer, string) {
	t.Helper()
	upper, host, dir := diskLayers(t, project...)
	return overlay.New(upper, host), dir
}

// diskLayers returns an upper and a project on disk.
func diskLayers(t testing.TB, project ...seed) (*disklayer.Upper, *disklayer.Host, string) {
	t.Helper()
	dir := openDir(t)
	for _, name := range []string{"project", "upper", "work"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for _, s := range project {
		s.write(t, filepath.Join(dir, "project"))
	}
	upper, err := disklayer.OpenUpper(filepath.Join(dir, "upper"), filepath.Join(dir, "work"), disklayer.Options{ID: "upper", Log: slog.Default()})
	must(t, err)
	t.Cleanup(func() {
		if err := upper.Close(); err != nil {
			t.Errorf("close of the upper: %v", err)
		}
	})
	_, err = upper.Recover(t.Context(), nil)
	must(t, err)
	host, err := disklayer.OpenHost(filepath.Join(dir, "project"), disklayer.Options{ID: "project"})
	must(t, err)
	t.Cleanup(func() { host.Close() })
	return upper, host, filepath.Join(dir, "project")
}

// routedTree returns a tree on disk with the routes of an agent in a store in
// memory, over a project on disk.
func routedTree(t testing.TB, project ...seed) overlay.Layer {
	return treeOn(t, memkv.New(), project...)
}

// treeOn is routedTree with the store given.
func treeOn(t testing.TB, store kvstore.Store, project ...seed) overlay.Layer {
	t.Helper()
	upper, host, _ := diskLayers(t, project...)
	return treeOver(t, store, upper, host)
}

// treeOver is treeOn with the layers given.
func treeOver(t testing.TB, store kvstore.Store, upper overlay.Upper, host overlay.Reader) overlay.Layer {
	t.Helper()
	table, err := router.New(router.Rules{Agent: "a"})
	must(t, err)
	layers := map[router.Segment]overlay.Upper{router.Local: upper}
	for i, r := range table.Routes() {
		if layers[r.Segment] != nil {
			continue
		}
		layers[r.Segment] = storeLayer(t, store, string(r.Segment), uint64(1000+i))
	}
	mux, err := overlay.NewMux(table, layers)
	must(t, err)
	return overlay.New(mux, host)
}

// storeLayer opens a segment of a store as one daemon of several.
func storeLayer(t testing.TB, store kvstore.Store, segment string, dev uint64) *kvlayer.Layer {
	t.Helper()
	kv, err := kvlayer.New(t.Context(), store, "test", kvlayer.Options{Segment: segment, Dev: dev, ID: segment})
	must(t, err)
	t.Cleanup(func() { kv.Close() })
	return kv
}
