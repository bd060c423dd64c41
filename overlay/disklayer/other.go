//go:build !linux

package disklayer

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsfs/wsfs/overlay"
)

// An Upper is a directory as the writable layer of a stack. There is none on
// this system.
type Upper struct{ overlay.Upper }

// A Frozen is a directory that once was an Upper. There is none on this system.
type Frozen struct{ overlay.Reader }

// A Host is a directory that other programs may change. There is none on this
// system.
type Host struct{ overlay.Reader }

var errNotLinux = fmt.Errorf("disklayer: layers on disk need Linux: %w", errors.ErrUnsupported)

// OpenUpper fails with errors.ErrUnsupported.
func OpenUpper(dir, work string, o Options) (*Upper, error) { return nil, errNotLinux }

// OpenFrozen fails with errors.ErrUnsupported.
func OpenFrozen(dir string, o Options) (*Frozen, error) { return nil, errNotLinux }

// OpenHost fails with errors.ErrUnsupported.
func OpenHost(dir string, o Options) (*Host, error) { return nil, errNotLinux }

// Overflows returns 0: nothing is watched on this system.
func Overflows() uint64 { return 0 }

// Close does nothing.
func (*Upper) Close() error { return nil }

// DrainMarks fails with errors.ErrUnsupported.
func (*Upper) DrainMarks(context.Context) error { return errNotLinux }

// Close does nothing.
func (*Frozen) Close() error { return nil }

// Close does nothing.
func (*Host) Close() error { return nil }
