// Package wsfs is the Go interface to workspaces: layered trees in which an
// agent works, with its memory in a key-value store and everything else on
// local disk.
//
// Open assembles a Workspace from a Config: the state on disk, the store, the
// routes, the layers. Mount shows it at a directory; Layer gives it to the
// process itself, which must never go through its own mount. Close makes
// everything durable and gives the state back.
//
//	ws, err := wsfs.Open(ctx, wsfs.Config{
//		State:    "/var/lib/wsfs",
//		Name:     "demo",
//		Projects: []string{"/home/me/demo"},
//		Identity: router.Identity{Agent: "coder", User: "me"},
//	})
//	...
//	defer ws.Close()
//	m, err := ws.Mount(ctx, "/run/wsfs/demo", wsfs.MountOptions{})
//	...
//	err = m.Wait() // until somebody unmounts it
//
// A workspace is open in one process at a time; so is the embedded store,
// which several workspaces of one process may share.
//
// PlainOverlay is the same machinery without a workspace: lower directories,
// an upper and a work directory, as the kernel's overlayfs has them.
//
// A process that serves a mount must not fork, exec or change its directory
// into it, and must not open a path through it: the request would wait for the
// process itself.
package wsfs
