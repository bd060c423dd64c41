// Package layertest is the suite that every layer has to pass.
//
// A layer adopts it with a Config, which says how to make one and what it can
// do (Ability), never what it is:
//
//	func TestLayer(t *testing.T) {
//		layertest.Run(t, layertest.Config{
//			New:       func(t layertest.TB, dir string) overlay.Upper { ... },
//			Abilities: layertest.Links | layertest.Xattrs,
//		})
//	}
//
// Run has a test for each sentence of the contract in package overlay, for each
// fault of systems of this kind that a layer can have, and compares random
// operations on the layer with a model. RunOverlay puts the layer under an
// Overlay with lowers that change places: at random points the upper is frozen
// and becomes a lower, or is closed and opened again. After each step the tree
// is that of the model, its inode numbers are those it had, and the project at
// the bottom is as it was.
package layertest
