package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/reference from the help texts")

// TestReference checks that docs/reference says what the help texts say. Run
// it with -update after a change of one.
func TestReference(t *testing.T) {
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range commands(root) {
		path := filepath.Join("..", "..", "docs", "reference", strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md")
		want := reference(t, cmd)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run: go test ./cmd/wsfs -run Reference -update", err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date; run: go test ./cmd/wsfs -run Reference -update", path)
		}
	}
}

// commands returns the commands that users see, root first.
func commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" {
			all = append(all, c)
		}
	}
	return all
}

// reference returns the page of cmd.
func reference(t *testing.T, cmd *cobra.Command) []byte {
	t.Helper()
	var help bytes.Buffer
	cmd.SetOut(&help)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "# %s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(help.String()))
}
