package kvtest

import (
	"testing"
	"time"
)

// waitFor returns when holds does, and fails the test if that takes very long:
// the suite's only clock, against a hang.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what the test waits for did not happen in a minute")
		}
	}
}
