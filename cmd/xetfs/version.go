package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// A buildVersion says which program this is. Absent values are null in JSON.
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
