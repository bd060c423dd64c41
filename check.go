package wsfs

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/wsfs/wsfs/overlay"
)

// Check opens the workspace name in state, which repairs what an unclean stop
// left behind, and returns what is damaged, a line each: nil if all is well.
// ErrInUse while the workspace is open elsewhere, ErrNoWorkspace if there is
// none.
func Check(ctx context.Context, state, name string, log *slog.Logger) ([]string, error) {
	c, err := ReadConfig(state, name)
	if err != nil {
		return nil, err
	}
	c.Log = log
	w, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	damage := w.Check(ctx)
	return damage, w.Close()
}

// Check returns what is damaged in the workspace, a line each: its layers, its
// part of the store, and the tree they give. Nothing may change the workspace
// meanwhile.
func (w *Workspace) Check(ctx context.Context) []string {
	return append(w.damage[:len(w.damage):len(w.damage)], lines(overlay.Check(ctx, w.tree))...)
}

// lines returns the messages joined in err.
func lines(err error) []string {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, lines(e)...)
		}
		return all
	}
	return []string{strings.ReplaceAll(err.Error(), "\n", " ")}
}
