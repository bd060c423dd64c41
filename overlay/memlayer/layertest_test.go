package memlayer_test

import (
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// config is a layer in memory, as layertest wants it.
var config = layertest.Config{
	New: func(layertest.TB, string) overlay.Upper {
		return memlayer.New(memlayer.Options{})
	},
	Abilities: layertest.All,
}

func TestLayer(t *testing.T)   { layertest.Run(t, config) }
func TestOverlay(t *testing.T) { layertest.RunOverlay(t, config) }
