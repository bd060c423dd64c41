//go:build linux

package fs_test

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"github.com/wsfs/wsfs/fs"
)

// posixExceptions are tests of the suite that are not run, with the reason.
var posixExceptions = map[string]string{
	"FcntlFlockLocksFile": "wants two descriptors of one process to be in each other's way; POSIX locks belong to the process, and ext4 fails it, too",
}

// TestPosix runs go-fuse's suite on every kind of layer.
func TestPosix(t *testing.T) {
	for _, k := range kinds {
		for name, fn := range posixtest.All {
			if posixExceptions[name] != "" {
				continue
			}
			t.Run(k.name+"/"+name, func(t *testing.T) {
				fn(t, mount(t, k.layer(t), fs.Options{Passthrough: true}).dir)
			})
		}
	}
}
