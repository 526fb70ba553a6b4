package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newVersion returns the command that prints the version of xetfs.
func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which xetfs this is: version, revision, Go version",
		Long: `Prints the version of xetfs, the revision of its source and whether that was changed, the version of
Go, and the platform.`,
		Annotations: see("json"),
		Example: `  xetfs version
  xetfs version --json | jq -r .revision`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersion()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), v)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// A buildVersion identifies this program. Absent values are null in JSON.
type buildVersion struct {
	Version  string  `json:"version"`  // of the module; "(devel)" when built from a checkout without a tag
	Revision *string `json:"revision"` // of the version control system
	Time     *string `json:"time"`     // of that revision
	Modified bool    `json:"modified"` // there were changes that are not in the revision
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

// String is the version for people: "xetfs v0.1.0, revision 1a2b3c4d5e6f, go1.26.8 linux/amd64".
func (v buildVersion) String() string {
	text := "xetfs " + v.Version
	if v.Revision != nil {
		text += ", revision " + (*v.Revision)[:min(12, len(*v.Revision))]
		if v.Modified {
			text += " with changes"
		}
	}
	return text + ", " + v.Go + " " + v.Platform
}

// readVersion reads what the Go command wrote into the program.
func readVersion() buildVersion {
	v := buildVersion{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = &s.Value
		case "vcs.time":
			v.Time = &s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
