package main

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build (-ldflags -X main.version=...).
var version = "devel"

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "version prints the version of wsfs, of Go, and the commit it was built from." + exitHelp,
		Example: `  wsfs version
  wsfs version --json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := map[string]string{"version": version, "go": goruntime.Version(), "os": goruntime.GOOS, "arch": goruntime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["commit"] = s.Value
					}
				}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wsfs %s (%s, %s/%s) %s\n", v["version"], v["go"], v["os"], v["arch"], v["commit"])
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
