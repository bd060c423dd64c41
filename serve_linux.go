package wsfs

import (
	"log/slog"
	"os"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/fs/transport"
	"github.com/wsfs/wsfs/overlay"
)

// newServer mounts tree on the directory path. Nothing is answered before the
// server's Serve is called. Root serves all users and lets the kernel pass
// reads and writes through to the files on disk.
func newServer(tree overlay.Layer, path string, o MountOptions, log *slog.Logger) (*transport.Server, error) {
	root := os.Geteuid() == 0
	f := fs.New(tree, fs.Options{Passthrough: root, AllowOther: root, ReadOnly: o.ReadOnly, FsName: o.Source, Log: log})
	options := f.MountOptions()
	if o.NoExec {
		options.Options = append(options.Options, "noexec")
	}
	server, err := transport.Mount(path, f, options, transport.Options{Log: log})
	if err != nil {
		return nil, err
	}
	f.Attach(server)
	f.Init(nil)
	return server, nil
}
