//go:build ignore

// Sbom writes the SPDX document of a program built by Go: its modules, as the program itself
// lists them.
//
//	go run sbom.go PROGRAM VERSION
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// The document of https://spdx.github.io/spdx-spec/v2.3/, as far as it is used.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []module       `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type module struct {
	Name       string     `json:"name"`
	ID         string     `json:"SPDXID"`
	Version    string     `json:"versionInfo"`
	Location   string     `json:"downloadLocation"`
	Analyzed   bool       `json:"filesAnalyzed"`
	License    string     `json:"licenseConcluded"`
	Declared   string     `json:"licenseDeclared"`
	Copyright  string     `json:"copyrightText"`
	Checksums  []checksum `json:"checksums,omitempty"`
	References []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom.go PROGRAM VERSION")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom.go:", err)
		os.Exit(1)
	}
}

// write writes the document of a program.
func write(w io.Writer, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	created, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	main := newModule(info.Main.Path, version)
	main.License, main.Declared = "Apache-2.0", "Apache-2.0"
	main.Checksums = []checksum{{"SHA256", sum}}
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:          "xetfs " + version,
		Namespace:     "https://github.com/xetfs/xetfs/spdx/" + sum,
		Creation:      creation{time.Unix(created, 0).UTC().Format(time.RFC3339), []string{"Tool: sbom.go"}},
		Packages:      []module{main},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main.ID}},
	}
	standard := &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, dep := range append(info.Deps, standard) {
		used := dep
		if dep.Replace != nil {
			used = dep.Replace
		}
		m := newModule(used.Path, cmp.Or(used.Version, "(devel)"))
		d.Packages = append(d.Packages, m)
		d.Relationships = append(d.Relationships, relationship{main.ID, "DEPENDS_ON", m.ID})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// newModule returns a module without a known license.
func newModule(path, version string) module {
	const unknown = "NOASSERTION"
	return module{
		Name: path, ID: "SPDXRef-" + strings.Map(idRune, path), Version: version,
		Location: unknown, License: unknown, Declared: unknown, Copyright: unknown,
		References: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}

// idRune replaces the characters that an identifier must not have.
func idRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.':
		return r
	}
	return '-'
}
