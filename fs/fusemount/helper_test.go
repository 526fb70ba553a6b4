package fusemount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeHelpers sets PATH and the fixed places to folders with the given programs.
func fakeHelpers(t *testing.T, inPath, fixed []string) (path, place string) {
	t.Helper()
	path, place = t.TempDir(), t.TempDir()
	for dir, names := range map[string][]string{path: inPath, place: fixed} {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \"$0: no\" >&2\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := helperPlaces
	t.Cleanup(func() { helperPlaces = before })
	helperPlaces = nil
	for _, name := range helperNames {
		helperPlaces = append(helperPlaces, filepath.Join(place, name))
	}
	t.Setenv("PATH", path)
	return path, place
}

func TestFindHelper(t *testing.T) {
	const fuse3, fuse2 = "fusermount3", "fusermount"
	tests := []struct {
		name          string
		inPath, fixed []string
		want          string // "": none
	}{
		{"only in PATH", []string{fuse3}, nil, "path/" + fuse3},
		{"only in a fixed place", nil, []string{fuse3}, "place/" + fuse3},
		{"in both", []string{fuse3}, []string{fuse3}, "path/" + fuse3},
		{"both versions in PATH", []string{fuse3, fuse2}, nil, "path/" + fuse3},
		{"both versions in a fixed place", nil, []string{fuse2, fuse3}, "place/" + fuse3},
		{"version 2 in PATH", []string{fuse2}, []string{fuse3}, "path/" + fuse2},
		{"absent", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, place := fakeHelpers(t, tt.inPath, tt.fixed)
			got, err := findHelper()
			got = strings.NewReplacer(path, "path", place, "place").Replace(got)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("found %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

// A refusal has the sentence of the helper, or names the table of mounts that it needs.
func TestRunHelper(t *testing.T) {
	path, _ := fakeHelpers(t, []string{"fusermount3"}, nil)
	defer func(old string) { mountTable = old }(mountTable)
	for table, want := range map[string]string{
		path:                          filepath.Join(path, "fusermount3") + ": no",
		filepath.Join(path, "absent"): "fusermount3 needs " + filepath.Join(path, "absent") + ", which is missing; ",
	} {
		mountTable = table
		if err := runHelper(nil, "-u"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error = %v, want %s…", err, want)
		}
	}
}

func TestHelperOptions(t *testing.T) {
	o := Options{Source: `/a,b\c`, AllowOther: true, MaxRead: 4096}
	const want = `ro,nosuid,nodev,default_permissions,fsname=/a\,b\\c,subtype=xetfs,max_read=4096,allow_other`
	if got := o.forHelper(); got != want {
		t.Errorf("options = %s, want %s", got, want)
	}
}
