// Package transport mounts a fuse.RawFileSystem and moves its requests between
// the kernel and the handlers. It and package fs are the only ones that know
// go-fuse.
//
// # Where the threads run
//
// The time of a request of one client is mostly the time of two wake-ups and of
// the system calls around them. Therefore a reader reads a request, calls the
// handler and writes the answer itself; nothing is handed to another goroutine.
// Parsing and encoding are go-fuse's (fuse.ProtocolServer). One reader serves
// as long as it keeps up: the kernel wakes readers in turn, so every further
// one costs switches of threads and competes with the clients for their CPUs.
//
// Further readers, spares, join where one is not enough (crew): at once for a
// request that is known to take long, after a millisecond or some when all have
// been in the same handlers since, and when none has any rest though there is
// more to do for the CPUs, or all they do is wait for a disk or a store. A spare
// leaves when the others have had rest without it for a while. A handler may
// block for ever; it costs one reader, of Options.Spares at most.
//
// The idle CPUs of a virtual machine are kept from halting while requests come
// thick and fast (vigil).
//
// Options.Plain serves with go-fuse's own fuse.Server, for comparison.
//
// # What holds
//
//   - Handlers run concurrently, and an INTERRUPT overtakes what waits.
//   - Every request that was read is answered: where a handler panics, or its
//     answer is one the kernel refuses, with EIO.
//   - When the mount goes, the cancel channels of all requests in flight are
//     closed, Serve waits for their handlers and calls OnUnmount.
//   - A mountpoint never has two mounts of a type: Mount replaces a dead one
//     (its server was killed) and refuses a living one with EBUSY.
//   - nosuid and nodev are always set.
//   - Notifications and backing files can be used from any goroutine for as
//     long as the Server exists; after the end of Serve they fail with EBADF.
//
// # No fork while serving
//
// A process that serves a mount must not start others: between fork and exec
// the child may wait for an answer from its parent, which waits for the exec.
// Root needs none for mount(2) and umount(2). For others fusermount3 is started
// by a runner, this program run again (see runnerMark), which the first Mount
// starts before there is anything to serve.
//
// # Locks
//
// device.mu, crew.mu, runner.mu and runnerMu are leaves: no other lock of the
// repository is taken with one held, and handlers run with none. mounting is
// held over a mount(2); runnerMu and runner.mu are taken with it held.
package transport
