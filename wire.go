package wsfs

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/kvlayer"
	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/disklayer"
	"github.com/wsfs/wsfs/router"
)

// assemble opens the parts of the workspace and joins them into its tree:
//
//	Overlay( Mux{"": upper, "memory": kv, ...}, frozen layers..., projects... )
func (w *Workspace) assemble(ctx context.Context, rec record) error {
	uppers := make(map[router.Segment]overlay.Upper)
	upper, lowers, err := w.openDisk(rec)
	if err != nil {
		return err
	}
	uppers[router.Local] = upper
	if err := w.openSegments(ctx, rec.ID, uppers); err != nil {
		return err
	}
	mux, err := overlay.NewMux(w.table, uppers)
	if err != nil {
		return err
	}
	w.tree = overlay.New(mux, lowers...)
	return nil
}

// openDisk opens the layers on disk: the upper, and below it the frozen ones
// and the projects.
func (w *Workspace) openDisk(rec record) (overlay.Upper, []overlay.Reader, error) {
	upper, err := disklayer.OpenUpper(w.layerDir(rec.Layers[0]), filepath.Join(w.dir, "work"), w.diskOptions(rec.Layers[0]))
	if err != nil {
		return nil, nil, fmt.Errorf("layer %s: %w", rec.Layers[0], err)
	}
	w.closers.add(upper.Close)
	var lowers []overlay.Reader
	for _, name := range rec.Layers[1:] {
		frozen, err := disklayer.OpenFrozen(w.layerDir(name), w.diskOptions(name))
		if err != nil {
			return nil, nil, fmt.Errorf("layer %s: %w", name, err)
		}
		w.closers.add(frozen.Close)
		lowers = append(lowers, frozen)
	}
	for _, dir := range w.config.Projects {
		project, err := disklayer.OpenHost(dir, disklayer.Options{ID: "project:" + dir, Log: w.log})
		if err != nil {
			return nil, nil, fmt.Errorf("project %s: %w", dir, err)
		}
		w.closers.add(project.Close)
		lowers = append(lowers, project)
	}
	return upper, lowers, nil
}

// layerDir returns the directory of a layer that is named in the record.
func (w *Workspace) layerDir(name string) string {
	return filepath.Join(w.dir, "layers", name)
}

func (w *Workspace) diskOptions(layer string) disklayer.Options {
	return disklayer.Options{ID: "layer:" + layer, Log: w.log, Meta: filepath.Join(w.dir, "meta", layer)}
}

// openSegments opens the store, and in it each segment that a route names. id
// is the workspace's.
func (w *Workspace) openSegments(ctx context.Context, id string, uppers map[router.Segment]overlay.Upper) error {
	routes := w.table.Routes()
	if len(routes) == 0 {
		return nil
	}
	store, err := openStore(w.config)
	if err != nil {
		return err
	}
	w.closers.add(store.Close)
	// Segments may share their place in the store, which is opened once.
	places := make(map[string]overlay.Upper)
	for _, r := range routes {
		if uppers[r.Segment] != nil {
			continue
		}
		namespace := w.namespace(id, r)
		place := r.Segment.In(namespace)
		if places[place] == nil {
			if places[place], err = w.openSegment(ctx, store, namespace, r.Segment); err != nil {
				return err
			}
		}
		uppers[r.Segment] = places[place]
	}
	return nil
}

// namespace returns where the files of r are kept, and logs why that is
// narrower than asked for.
func (w *Workspace) namespace(id string, r router.Route) string {
	namespace, falls := router.Resolve(w.config.identity(id), r.Scope, w.config.AnonymousUser)
	for _, f := range falls {
		w.log.Warn("workspace: narrower scope", "workspace", w.config.Name, "route", r.Prefix, "why", f.String())
	}
	return namespace
}

func (w *Workspace) openSegment(ctx context.Context, store kvstore.Store, namespace string, s router.Segment) (overlay.Upper, error) {
	uid, gid := w.owner()
	layer, err := kvlayer.New(ctx, store, namespace, kvlayer.Options{
		Segment:  strings.TrimPrefix(s.In(""), "/"),
		Dev:      deviceOf(s.In(namespace)),
		ID:       "store:" + s.In(namespace),
		Session:  w.config.Session,
		Who:      w.config.Agent,
		RootPerm: overlay.Perm{Mode: 0o755, UID: uid, GID: gid},
		Spool:    filepath.Join(w.dir, "spool"),
		Log:      w.log,
	})
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", w.config.storeURL(), err)
	}
	w.closers.add(layer.Close)
	return layer, nil
}

// owner returns who owns the routes' directories: whoever owns the project, so
// that an agent that may write the one may write the other.
func (w *Workspace) owner() (uid, gid uint32) {
	for _, dir := range w.config.Projects {
		if uid, gid, ok := ownerOf(dir); ok {
			return uid, gid
		}
	}
	return uint32(os.Geteuid()), uint32(os.Getegid())
}

// deviceOf returns a device number for a place in the store that no file
// system has: the high half is out of the range of Linux' numbers.
func deviceOf(place string) uint64 {
	h := fnv.New32a()
	h.Write([]byte(place))
	return 1<<63 | uint64(h.Sum32())
}

// table returns the routes that c asks for.
func (c Config) table() (*router.Table, error) {
	rules := router.Rules{Agent: c.Agent, NoRoute: c.NoRoutes, Local: c.Local}
	if c.Scope != "" {
		scope, err := router.ParseScope(c.Scope)
		if err != nil {
			return nil, err
		}
		rules.Scope = scope
	}
	for _, text := range c.Routes {
		rule, err := router.ParseRoute(text)
		if err != nil {
			return nil, err
		}
		rules.Routes = append(rules.Routes, rule)
	}
	return router.New(rules)
}

// identity returns for whom the workspace with the given id is.
func (c Config) identity(id string) router.Identity {
	return router.Identity{Agent: c.Agent, User: c.User, Session: c.Session, Workspace: id}
}
