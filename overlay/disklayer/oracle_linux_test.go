package disklayer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
)

// TestOracle does the same random operations on an Overlay of disk layers and
// on the kernel's overlayfs. At random points both start a new upper over what
// was the upper so far. In the end the kernel mounts the stack that wsfs wrote,
// and shows the same tree; and wsfs shows the same of what the kernel wrote.
func TestOracle(t *testing.T) {
	need(t, "root")
	layertest.RunAlike(t, layertest.Nodes, func(t layertest.TB, dir string) layertest.Trial {
		return newOracle(t, dir)
	})
}

// An oracle is one run: two stacks of directories over one project.
type oracle struct {
	t             layertest.TB
	dir           string
	kernel, ours  []string // the layers, top first; the last is the project
	upper         *Upper
	lowers        []overlay.Reader
	mounted       []string
	count         int
	kernelOptions string
}

func newOracle(t layertest.TB, dir string) *oracle {
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	o := &oracle{t: t, dir: dir, kernel: []string{project}, ours: []string{project}, kernelOptions: ",redirect_dir=on,index=off,metacopy=off,xino=off"}
	t.Cleanup(o.close)
	return o
}

func (o *oracle) Project() overlay.Layer { return hostTree{o.kernel[0]} }

// newDir makes a directory for a layer or a mount.
func (o *oracle) newDir(name string) string {
	o.t.Helper()
	o.count++
	path := filepath.Join(o.dir, name+string(rune('A'+o.count%26))+string(rune('A'+o.count/26)))
	if err := os.Mkdir(path, 0o755); err != nil {
		o.t.Fatalf("%v", err)
	}
	return path
}

// mount mounts the kernel's overlayfs and returns where.
func (o *oracle) mount(options string) hostTree {
	o.t.Helper()
	at := o.newDir("mnt")
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		o.t.Fatalf("mount -t overlay -o %s: %v", options, err)
	}
	o.mounted = append(o.mounted, at)
	return hostTree{at}
}

// unmount takes all mounts of the kernel away.
func (o *oracle) unmount() {
	for _, at := range slices.Backward(o.mounted) {
		if err := unix.Unmount(at, 0); err != nil {
			o.t.Errorf("umount %s: %v", at, err)
		}
	}
	o.mounted = nil
}

func (o *oracle) Start(t layertest.TB) []overlay.Layer {
	t.Helper()
	host, err := OpenHost(o.ours[0], Options{})
	if err != nil {
		t.Fatalf("OpenHost: %v", err)
	}
	o.lowers = []overlay.Reader{host}
	return o.Freeze(t)
}

// Freeze puts an empty upper on top of both stacks.
func (o *oracle) Freeze(t layertest.TB) []overlay.Layer {
	t.Helper()
	o.unmount()
	up, work := o.newDir("kup"), o.newDir("kwork")
	tree := o.mount("lowerdir=" + strings.Join(o.kernel, ":") + ",upperdir=" + up + ",workdir=" + work + o.kernelOptions)
	o.kernel = append([]string{up}, o.kernel...)

	o.freezeOurs(t)
	own, work := o.newDir("our"), o.newDir("work")
	u, err := OpenUpper(own, work, Options{})
	if err != nil {
		t.Fatalf("OpenUpper: %v", err)
	}
	o.upper = u
	o.ours = append([]string{own}, o.ours...)
	return []overlay.Layer{overlay.New(u, o.lowers...), tree}
}

// freezeOurs makes our upper, if there is one, a lower.
func (o *oracle) freezeOurs(t layertest.TB) {
	t.Helper()
	if o.upper == nil {
		return
	}
	if err := o.upper.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	o.upper = nil
	f, err := OpenFrozen(o.ours[0], Options{})
	if err != nil {
		t.Fatalf("OpenFrozen: %v", err)
	}
	o.lowers = append([]overlay.Reader{f}, o.lowers...)
}

func (o *oracle) End(t layertest.TB) []overlay.Reader {
	t.Helper()
	o.freezeOurs(t)
	o.unmount()
	byKernel := o.mount("lowerdir=" + strings.Join(o.ours, ":") + ",redirect_dir=follow,index=off,metacopy=off")
	var theirs []overlay.Reader
	for _, dir := range o.kernel[:len(o.kernel)-1] {
		f, err := OpenFrozen(dir, Options{Meta: filepath.Join(o.dir, "no meta")})
		if err != nil {
			t.Fatalf("OpenFrozen of a layer that the kernel wrote: %v", err)
		}
		t.Cleanup(func() { f.Close() })
		theirs = append(theirs, f)
	}
	return []overlay.Reader{
		overlay.New(nil, o.lowers...),
		byKernel,
		overlay.New(nil, append(theirs, o.lowers[len(o.lowers)-1])...),
	}
}

// close gives everything back.
func (o *oracle) close() {
	o.unmount()
	if o.upper != nil {
		o.upper.Close()
	}
	for _, l := range o.lowers {
		l.(interface{ Close() error }).Close()
	}
}
