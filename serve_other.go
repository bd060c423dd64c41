//go:build !linux

package wsfs

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/wsfs/wsfs/fs/transport"
	"github.com/wsfs/wsfs/overlay"
)

// newServer fails: only Linux mounts.
func newServer(overlay.Layer, string, MountOptions, *slog.Logger) (*transport.Server, error) {
	return nil, fmt.Errorf("mounting needs Linux: %w", errors.ErrUnsupported)
}
