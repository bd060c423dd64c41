package disklayer

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay/layertest"
)

// TestOnOverlayfs runs the suites where the state lies on the kernel's
// overlayfs, as in a container: it refuses whiteouts, so they go to the mark
// file.
func TestOnOverlayfs(t *testing.T) {
	t.Parallel()
	need(t, "root")
	base := t.TempDir()
	dirs := make(map[string]string)
	for _, name := range []string{"lower", "upper", "work", "mnt"} {
		dirs[name] = filepath.Join(base, name)
		must(t, "Mkdir", os.Mkdir(dirs[name], 0o755))
	}
	options := "lowerdir=" + dirs["lower"] + ",upperdir=" + dirs["upper"] + ",workdir=" + dirs["work"]
	must(t, "mount", unix.Mount("overlay", dirs["mnt"], "overlay", 0, options))
	t.Cleanup(func() { unix.Unmount(dirs["mnt"], unix.MNT_DETACH) })
	u, err := OpenUpper(dirs["mnt"]+"/upper", dirs["mnt"]+"/work", Options{})
	must(t, "OpenUpper", err)
	if !u.gone {
		t.Error("overlayfs does not refuse whiteouts: the test shows nothing")
	}
	must(t, "Close", u.Close())
	t.Run("Faults", func(t *testing.T) {
		sweep(t, func(t *testing.T) place {
			dir, err := os.MkdirTemp(dirs["mnt"], "sweep-")
			must(t, "MkdirTemp", err)
			return place{dir + "/upper", dir + "/work"}
		})
	})
	t.Run("Layer", func(t *testing.T) {
		a := newAdopter(t, Options{})
		a.base = dirs["mnt"]
		layertest.Run(t, a.config(layertest.All))
	})
	t.Run("Overlay", func(t *testing.T) {
		a := newAdopter(t, Options{})
		a.base = dirs["mnt"]
		layertest.RunOverlay(t, a.config(layertest.All))
	})
}
