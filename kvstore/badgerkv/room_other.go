//go:build !linux

package badgerkv

import (
	"math"
	"os"
)

// freeSpace does not know, and so refuses nothing: on this platform a full disk
// ends the process.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// allocate does nothing: makeSpare's file is badger's to make.
func allocate(string, int64, int64) error { return nil }

// syncDir does nothing, since allocate made no file.
func syncDir(string) error { return nil }

// diskSize returns the length of the file path; 0 if there is none.
func diskSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
