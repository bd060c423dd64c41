package disklayer

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

var tbContext = context.Background()

// need skips the test where what it needs is missing: root, or loop devices. It
// fails where WSFS_REQUIRE lists that.
func need(t *testing.T, what ...string) {
	t.Helper()
	for _, w := range what {
		if have(w) {
			continue
		}
		if slices.Contains(strings.Split(os.Getenv("WSFS_REQUIRE"), ","), w) {
			t.Fatalf("needs %s, which WSFS_REQUIRE lists", w)
		}
		t.Skipf("needs %s", w)
	}
}

func have(what string) bool {
	switch what {
	case "root":
		return os.Geteuid() == 0
	case "loop":
		_, err := os.Stat("/dev/loop-control")
		return err == nil && os.Geteuid() == 0
	}
	return false
}
