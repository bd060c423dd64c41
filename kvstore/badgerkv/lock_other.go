//go:build !unix

package badgerkv

import (
	"errors"
	"os"
)

// lockFile fails: there is no lock here that goes with the process.
func lockFile(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// unlockFile has nothing to give up.
func unlockFile(*os.File) error { return nil }
