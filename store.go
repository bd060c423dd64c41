package wsfs

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/kvstore/memkv"
)

// openStore opens the store that c names.
func openStore(c Config) (kvstore.Store, error) {
	kind, where, _ := strings.Cut(c.storeURL(), ":")
	switch kind {
	case "mem":
		return memkv.New(), nil
	default: // checked: badger
		return badgerkv.Open(where, badgerkv.Options{Log: c.Log})
	}
}

// storeURL returns c.Store or the default, the embedded store in c.State.
func (c Config) storeURL() string {
	if c.Store == "" {
		return "badger:" + filepath.Join(c.State, "kv")
	}
	return c.Store
}

// checkStore refuses a store of an unknown kind.
func (c Config) checkStore() error {
	kind, where, ok := strings.Cut(c.storeURL(), ":")
	switch {
	case !ok || kind != "badger" && kind != "mem":
		return fmt.Errorf("unknown store %q: want badger:DIR or mem:", c.Store)
	case kind == "mem" && where != "":
		return fmt.Errorf("store %q: mem: takes nothing behind the colon", c.Store)
	case kind == "badger" && !filepath.IsAbs(where):
		return fmt.Errorf("store %q: the directory must be absolute", c.Store)
	}
	return nil
}
