package overlay

import "context"

// A readHandle is a layer's handle that tells the numbers of the tree.
type readHandle struct {
	Handle
	stack  *stack
	origin uint64 // Attr.Origin of the file; 0 if it has none
}

// A writeHandle is the same for writing.
type writeHandle struct {
	WriteHandle
	stack *stack
}

// Unwrap returns the layer's handle, for its abilities.
func (h readHandle) Unwrap() any { return h.Handle }

// Stat implements Handle.
func (h readHandle) Stat(ctx context.Context) (Attr, error) {
	a, err := h.Handle.Stat(ctx)
	if h.origin != 0 {
		a.Origin = h.origin
	}
	return h.stack.show(a), err
}

// Unwrap returns the layer's handle, for its abilities.
func (h writeHandle) Unwrap() any { return h.WriteHandle }

// Stat implements Handle.
func (h writeHandle) Stat(ctx context.Context) (Attr, error) {
	a, err := h.WriteHandle.Stat(ctx)
	return h.stack.show(a), err
}

// SetAttr implements WriteHandle.
func (h writeHandle) SetAttr(ctx context.Context, set SetAttr) (Attr, error) {
	a, err := h.WriteHandle.SetAttr(ctx, set)
	return h.stack.show(a), err
}
