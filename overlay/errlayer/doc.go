// Package errlayer makes the calls of a layer fail, one after the other.
//
// A Layer wraps an upper and asks its Plan before each call. The plan lets some
// calls through and fails the next, once (as a full disk would) or for ever
// from then on (as a crash would). Sweep runs an operation under every such
// plan: fail step 0, 1, 2 ... until the operation has no more steps.
//
// A call that fails was not made: nothing below it has changed.
package errlayer
