package disklayer

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A disk is a file system on a loop device. A copy of its image is what a power
// cut leaves of it: what was not written to the device is not in the image.
type disk struct {
	t      *testing.T
	kind   string
	image  string
	at     string // where it is mounted
	filler *os.File
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := osexec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	d := &disk{t: t, kind: kind, image: filepath.Join(t.TempDir(), "image")}
	size := map[string]string{"ext4": "48M", "xfs": "320M"}[kind]
	run(t, "truncate", "-s", size, d.image)
	run(t, "mkfs."+kind, map[string]string{"ext4": "-q", "xfs": "-q"}[kind], d.image)
	d.mount()
	filler, err := os.Create(filepath.Join(d.at, "filler"))
	must(t, "Create", err)
	d.filler = filler
	t.Cleanup(func() { filler.Close() })
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	d.at = d.t.TempDir()
	options := map[string]string{"ext4": "loop,commit=600", "xfs": "loop,nouuid"}[d.kind]
	run(d.t, "mount", "-t", d.kind, "-o", options, d.image, d.at)
	at := d.at
	d.t.Cleanup(func() { osexec.Command("umount", "-l", at).Run() })
}

func (d *disk) place() place {
	return place{filepath.Join(d.at, "upper"), filepath.Join(d.at, "work")}
}

// commit has the file system write its journal, as it does every few seconds,
// but no data of other files.
func (d *disk) commit() {
	d.t.Helper()
	_, err := d.filler.Write([]byte("x"))
	must(d.t, "Write", err)
	must(d.t, "Sync", d.filler.Sync())
}

// cut returns what a power cut now would leave.
func (d *disk) cut(name string) string {
	d.t.Helper()
	image := filepath.Join(filepath.Dir(d.image), name)
	run(d.t, "cp", "--sparse=always", d.image, image)
	return image
}

// after runs check on the upper in image, recovered. It is unmounted then.
func (d *disk) after(image string, origins overlay.Origins, check func(u *Upper, damaged []overlay.Name)) {
	d.t.Helper()
	c := &disk{t: d.t, kind: d.kind, image: image}
	c.mount()
	u, err := OpenUpper(c.place().dir, c.place().work, Options{SyncDelay: -1, alone: true})
	must(d.t, "OpenUpper after the cut", err)
	damaged, err := u.Recover(d.t.Context(), origins)
	must(d.t, "Recover", err)
	if err := u.Check(d.t.Context()); err != nil && len(damaged) == 0 {
		d.t.Errorf("Check after Recover: %v", err)
	}
	check(u, damaged)
	if err := u.Close(); err != nil {
		d.t.Errorf("Close: %v", err)
	}
	// Detached: a child of another test, not yet past its exec, may hold it.
	must(d.t, "Unmount", unix.Unmount(c.at, unix.MNT_DETACH))
	must(d.t, "Remove", os.Remove(image))
}

// onDisks runs test on each kind of file system.
func onDisks(t *testing.T, test func(t *testing.T, d *disk)) {
	t.Parallel()
	need(t, "root", "loop")
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newDisk(t, kind))
		})
	}
}

// An origin layer for copies, and how to find it again.
type project struct {
	*Host
	dir string
}

func newProject(t *testing.T) project {
	h, dir := newHost(t)
	return project{h, dir}
}

func (p project) origins(ctx context.Context, layer string, name overlay.Name) (overlay.Handle, error) {
	if layer != "project" {
		return nil, fmt.Errorf("no layer %q", layer)
	}
	return p.Open(ctx, name)
}

// copyUp copies name up as an overlay would.
func (p project) copyUp(t *testing.T, u *Upper, name overlay.Name) error {
	t.Helper()
	a, err := p.Lstat(t.Context(), name)
	must(t, "Lstat", err)
	h, err := p.Open(t.Context(), name)
	must(t, "Open", err)
	defer h.Close()
	return u.CopyUp(t.Context(), name, overlay.Copy{Attr: a, From: h, Origin: a.Ino, Layer: "project", Name: name})
}

// text is what files of projects hold: more than one block.
var text = strings.Repeat("all work and no play makes jack a dull boy\n", 3000)

func TestPowerCutAfterCopyUp(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		p := newProject(t)
		put0(t, p.dir, "f", text)
		must(t, "sparse", os.WriteFile(p.dir+"/sparse", []byte("a"), 0o644))
		must(t, "Truncate", os.Truncate(p.dir+"/sparse", 1<<20))
		hole, err := os.ReadFile(p.dir + "/sparse")
		must(t, "ReadFile", err)
		u := d.place().open(t, Options{})
		defer u.Close()
		must(t, "SyncAll", u.SyncAll(t.Context()))
		must(t, "CopyUp", p.copyUp(t, u, "f"))
		must(t, "CopyUp", p.copyUp(t, u, "sparse"))
		d.commit()
		short := false
		d.after(d.cut("cut"), func(ctx context.Context, layer string, name overlay.Name) (overlay.Handle, error) {
			short = true
			return p.origins(ctx, layer, name)
		}, func(u *Upper, damaged []overlay.Name) {
			if got := read(t, u, "f"); got != text || len(damaged) != 0 {
				t.Errorf("f holds %d bytes after the cut, want %d; damaged %q", len(got), len(text), damaged)
			}
			if got := read(t, u, "sparse"); got != string(hole) {
				t.Errorf("the sparse file holds %d bytes after the cut, want %d", len(got), len(hole))
			}
			if a, err := u.Lstat(t.Context(), "f"); err != nil || a.Origin == 0 {
				t.Errorf("the copy after the cut: %+v, %v", a, err)
			}
		})
		if !short {
			t.Error("the copy was durable at once: the test shows nothing")
		}
		must(t, "DrainMarks", u.DrainMarks(t.Context()))
		d.after(d.cut("drained"), noOrigins, func(u *Upper, damaged []overlay.Name) {
			if got := read(t, u, "f"); got != text || len(damaged) != 0 {
				t.Errorf("f holds %d bytes after DrainMarks and a cut", len(got))
			}
			if o, err := u.marks.origin(u.root, "f", 0); err != nil || o.pending || o.bad {
				t.Errorf("f has the mark %+v, %v after DrainMarks", o, err)
			}
		})
	})
}

// What a user made durable after a copy-up is not undone by a repair.
func TestPowerCutAfterChangeOfACopy(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(t *testing.T, u *Upper, w overlay.WriteHandle)
		want   func() map[overlay.Name]string
	}{
		{"truncate", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			_, err := w.SetAttr(t.Context(), overlay.SetAttr{Valid: overlay.SetSize, Size: 3})
			must(t, "SetAttr", err)
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"f": text[:3]} }},
		{"truncate by name", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			_, err := u.SetAttr(t.Context(), "f", overlay.SetAttr{Valid: overlay.SetSize, Size: 3})
			must(t, "SetAttr", err)
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"f": text[:3]} }},
		{"open with O_TRUNC", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			h, err := u.OpenFile(t.Context(), "f", overlay.Truncate, perm(0))
			must(t, "OpenFile", err)
			h.Close()
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"f": ""} }},
		{"fsync after append", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			_, err := w.WriteAt([]byte("end"), int64(len(text)))
			must(t, "WriteAt", err)
			must(t, "Sync", w.Sync(t.Context()))
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"f": text + "end"} }},
		{"O_SYNC write", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			h, err := u.OpenFile(t.Context(), "f", overlay.SyncData, perm(0))
			must(t, "OpenFile", err)
			_, err = h.WriteAt([]byte("xyz"), 5)
			must(t, "WriteAt", err)
			h.Close()
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"f": text[:5] + "xyz" + text[8:]} }},
		{"punch", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
			must(t, "Allocate", w.(overlay.Allocator).Allocate(t.Context(), 0, 8192, punch))
			must(t, "Sync", w.Sync(t.Context()))
		}, func() map[overlay.Name]string {
			return map[overlay.Name]string{"f": strings.Repeat("\x00", 8192) + text[8192:]}
		}},
		{"rename", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			must(t, "Rename", u.Rename(t.Context(), "f", "g", overlay.LeaveWhiteout|overlay.WriteBack))
		}, func() map[overlay.Name]string {
			return map[overlay.Name]string{"g": text, "f": "error: " + syscall.ENOENT.Error()}
		}},
		{"link", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			must(t, "Link", u.Link(t.Context(), "f", "g"))
			must(t, "Whiteout", u.Whiteout(t.Context(), "f"))
		}, func() map[overlay.Name]string {
			return map[overlay.Name]string{"g": text, "f": "error: " + syscall.ENOENT.Error()}
		}},
		{"directory above renamed", func(t *testing.T, u *Upper, w overlay.WriteHandle) {
			must(t, "Rename", u.Rename(t.Context(), "d", "e", overlay.LeaveWhiteout))
		}, func() map[overlay.Name]string { return map[overlay.Name]string{"e/f": text, "f": text} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			onDisks(t, func(t *testing.T, d *disk) {
				p := newProject(t)
				must(t, "Mkdir", os.Mkdir(p.dir+"/d", 0o755))
				put0(t, p.dir, "f", text)
				put0(t, p.dir, "d/f", text)
				u := d.place().open(t, Options{})
				defer u.Close()
				must(t, "Mkdir", u.Mkdir(t.Context(), "d", perm(0o755)))
				must(t, "SyncAll", u.SyncAll(t.Context()))
				must(t, "CopyUp", p.copyUp(t, u, "f"))
				must(t, "CopyUp", p.copyUp(t, u, "d/f"))
				w, err := u.OpenFile(t.Context(), "f", 0, perm(0))
				must(t, "OpenFile", err)
				defer w.Close()
				test.change(t, u, w)
				d.commit()
				d.after(d.cut("cut"), p.origins, func(u *Upper, damaged []overlay.Name) {
					for name, content := range test.want() {
						if got := read(t, u, name); got != content {
							t.Errorf("%s holds %d bytes, want %d: %.40q", name, len(got), len(content), got)
						}
					}
					if len(damaged) != 0 {
						t.Errorf("damaged: %q", damaged)
					}
				})
			})
		})
	}
}

// An editor's save by rename does not come back empty.
func TestPowerCutAfterSave(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		u := d.place().open(t, Options{})
		defer u.Close()
		write(t, u, "f", "old")
		must(t, "SyncAll", u.SyncAll(t.Context()))
		write(t, u, "f.tmp", text)
		must(t, "Rename", u.Rename(t.Context(), "f.tmp", "f", overlay.WriteBack))
		d.commit()
		d.after(d.cut("cut"), noOrigins, func(u *Upper, _ []overlay.Name) {
			if got := read(t, u, "f"); got != text && got != "old" && d.kind == "ext4" {
				t.Errorf("f holds %d bytes after the cut, want %d", len(got), len(text))
			}
		})
	})
}

func TestPowerCutWithOriginGone(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(t *testing.T, p project)
	}{
		{"changed", func(t *testing.T, p project) { put0(t, p.dir, "f", text+"more") }},
		{"removed", func(t *testing.T, p project) { must(t, "Remove", os.Remove(p.dir+"/f")) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			onDisks(t, func(t *testing.T, d *disk) {
				p := newProject(t)
				put0(t, p.dir, "f", text)
				u := d.place().open(t, Options{})
				defer u.Close()
				must(t, "SyncAll", u.SyncAll(t.Context()))
				must(t, "CopyUp", p.copyUp(t, u, "f"))
				d.commit()
				test.lose(t, p)
				d.after(d.cut("cut"), p.origins, func(u *Upper, damaged []overlay.Name) {
					if len(damaged) != 1 || damaged[0] != "f" {
						t.Errorf("Recover reports %q, want f", damaged)
					}
					if err := u.Check(t.Context()); err == nil {
						t.Error("Check reports nothing")
					}
				})
			})
		})
	}
}

// A cut between any two steps of a copy-up leaves no file or a whole one.
func TestPowerCutWithinCopyUp(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		p := newProject(t)
		put0(t, p.dir, "f", text)
		must(t, "Link", os.Link(p.dir+"/f", p.dir+"/g"))
		var cuts []string
		active := false
		u := d.place().open(t, Options{fault: func(step string) error {
			if active {
				d.commit()
				cuts = append(cuts, d.cut(fmt.Sprintf("cut%d", len(cuts))))
			}
			return nil
		}})
		defer u.Close()
		must(t, "SyncAll", u.SyncAll(t.Context()))
		active = true
		must(t, "CopyUp", p.copyUp(t, u, "f"))
		a, err := p.Lstat(t.Context(), "f")
		must(t, "Lstat", err)
		must(t, "LinkIndexed", u.LinkIndexed(t.Context(), a.Ino, "g"))
		w, err := u.OpenFile(t.Context(), "f", overlay.Truncate, perm(0))
		must(t, "OpenFile", err)
		w.Close()
		active = false
		if len(cuts) < 10 {
			t.Errorf("only %d steps", len(cuts))
		}
		for i, image := range cuts {
			d.after(image, p.origins, func(u *Upper, damaged []overlay.Name) {
				absent := "error: " + syscall.ENOENT.Error()
				f, g := read(t, u, "f"), read(t, u, "g")
				if (f != text && f != absent && f != "") || (g != f && g != absent) || len(damaged) != 0 {
					t.Errorf("after step %d: f holds %d bytes, g %d, damaged %q", i, len(f), len(g), damaged)
				}
			})
		}
	})
}
