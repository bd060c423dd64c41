package transport

import (
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// testFS is a flat directory in memory. Opening a file whose name starts with
// "block" blocks until release is closed, or, unless it starts with
// "block-deaf", until the request is cancelled.
type testFS struct {
	fuse.RawFileSystem
	release   chan struct{} // lets blocked opens go
	entered   chan string   // gets the name of each open that blocks
	cancelled chan string   // gets the name of each blocked open that was cancelled
	unmounted chan struct{} // closed by OnUnmount
	attrTime  time.Duration // how long the kernel may keep attributes
	pause     time.Duration // how long a GETATTR takes

	mu    sync.Mutex
	names map[string]uint64
	files map[uint64]*testFile
	next  uint64
	most  int // the largest READ so far
}

type testFile struct {
	name string
	mode uint32
	data []byte
}

func newTestFS(names ...string) *testFS {
	f := &testFS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		release:       make(chan struct{}),
		entered:       make(chan string, 1000),
		cancelled:     make(chan string, 1000),
		unmounted:     make(chan struct{}),
		names:         map[string]uint64{},
		files:         map[uint64]*testFile{fuse.FUSE_ROOT_ID: {mode: syscall.S_IFDIR | 0o777}},
		next:          fuse.FUSE_ROOT_ID,
	}
	for _, name := range append(names, "file") {
		f.addLocked(name).data = []byte("content of " + name)
	}
	return f
}

func (f *testFS) addLocked(name string) *testFile {
	f.next++
	file := &testFile{name: name, mode: syscall.S_IFREG | 0o666}
	f.names[name], f.files[f.next] = f.next, file
	return file
}

func (f *testFS) String() string { return "testfs" }

func (f *testFS) OnUnmount() { close(f.unmounted) }

func (f *testFS) attr(node uint64, file *testFile) fuse.Attr {
	a := fuse.Attr{Ino: node, Mode: file.mode, Nlink: 1, Size: uint64(len(file.data)), Blksize: 4096}
	if node == fuse.FUSE_ROOT_ID {
		a.Nlink = 2
	}
	return a
}

func (f *testFS) entry(node uint64, out *fuse.EntryOut) {
	out.NodeId, out.Attr = node, f.attr(node, f.files[node])
	out.SetEntryTimeout(time.Hour)
	out.SetAttrTimeout(f.attrTime)
}

func (f *testFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, ok := f.names[name]
	if !ok {
		return fuse.ENOENT
	}
	f.entry(node, out)
	return fuse.OK
}

func (f *testFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(f.pause)
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[in.NodeId]
	if file == nil {
		return fuse.ENOENT
	}
	out.Attr = f.attr(in.NodeId, file)
	out.SetTimeout(f.attrTime)
	return fuse.OK
}

func (f *testFS) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[in.NodeId]
	if size, ok := in.GetSize(); ok {
		file.data = append(file.data, make([]byte, size)...)[:size]
	}
	out.Attr = f.attr(in.NodeId, file)
	out.SetTimeout(f.attrTime)
	return fuse.OK
}

func (f *testFS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	name := f.files[in.NodeId].name
	f.mu.Unlock()
	if !strings.HasPrefix(name, "block") {
		return fuse.OK
	}
	f.entered <- name
	if strings.HasPrefix(name, "block-deaf") {
		<-f.release
		return fuse.OK
	}
	select {
	case <-f.release:
		return fuse.OK
	case <-cancel:
		f.cancelled <- name
		return fuse.EINTR
	}
}

func (f *testFS) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.names[name]; ok {
		return fuse.Status(syscall.EEXIST)
	}
	f.addLocked(name)
	f.entry(f.next, &out.EntryOut)
	return fuse.OK
}

func (f *testFS) Unlink(_ <-chan struct{}, _ *fuse.InHeader, name string) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.names[name]; !ok {
		return fuse.ENOENT
	}
	delete(f.names, name)
	return fuse.OK
}

func (f *testFS) Forget(node, _ uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.files[node]; file != nil && f.names[file.name] != node && node != fuse.FUSE_ROOT_ID {
		delete(f.files, node)
	}
}

func (f *testFS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data := f.files[in.NodeId].data
	f.most = max(f.most, len(buf))
	if in.Offset >= uint64(len(data)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, data[in.Offset:])]), fuse.OK
}

func (f *testFS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[in.NodeId]
	if grow := int(in.Offset) + len(data) - len(file.data); grow > 0 {
		file.data = append(file.data, make([]byte, grow)...)
	}
	copy(file.data[in.Offset:], data)
	return uint32(len(data)), fuse.OK
}

func (f *testFS) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fuse.OK
}

func (f *testFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := in.Offset + 2; node <= f.next; node++ {
		file := f.files[node]
		if file == nil || f.names[file.name] != node {
			continue
		}
		if !out.AddDirEntry(fuse.DirEntry{Name: file.name, Mode: file.mode, Ino: node, Off: node - 1}) {
			break
		}
	}
	return fuse.OK
}

func (f *testFS) Flush(_ <-chan struct{}, _ *fuse.FlushIn) fuse.Status { return fuse.OK }

func (f *testFS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.NameLen = 4096, 255
	return fuse.OK
}
