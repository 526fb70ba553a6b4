package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// asFormat1 makes the documents of a store those of an older xetfs.
func asFormat1(t *testing.T, store string) {
	t.Helper()
	for _, pattern := range []string{"cref/*", "vref/*"} {
		found, err := filepath.Glob(filepath.Join(store, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range found {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			line, _, _ := bytes.Cut(b, []byte("\n"))
			line = bytes.Replace(line, []byte(`"format":2`), []byte(`"format":1`), 1)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, fmt.Appendf(nil, "%s\n%v\n", line, page.Sum(line)))
		}
	}
}

// A store of format 1 is refused by each command in one sentence that says what to do. Nothing is
// written. Its shards and xorbs can be mounted without the catalog.
func TestOlderStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, folder, mount := filepath.Join(dir, "store"), filepath.Join(dir, "folder"), filepath.Join(dir, "mount")
	for _, d := range []string{folder, mount} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(folder, "a"), bytes.Repeat([]byte("content "), 1000))
	mustRun(t, "publish", store, "m", folder)
	asFormat1(t, store)
	objects := objectMap{}
	err := filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		objects[names.Key(strings.TrimPrefix(path, store+"/"))] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&lieServer{honest: objects})
	defer s.Close()
	for _, source := range []string{store, s.URL} {
		for _, args := range [][]string{
			{"ls", source}, {"ls", source, "m"}, {"cat", source, "m", "a"}, {"history", source, "m"}, {"diff", source, "m@0", "m"},
			{"mount", "--foreground", "--cache-dir=off", source, mount}, {"mount", "--foreground", "--cache-dir=off", "--symbol", "m", source, mount},
			{"warm", "--cache-dir", filepath.Join(dir, "cache"), source, "m"},
			{"catalog", "check", source}, {"verify", source, "m"}, {"verify", source}, {"serve", "--listen=127.0.0.1:0", source},
			{"publish", source, "m", folder}, {"publish", "--dry-run", source, "m", folder}, {"catalog", "sweep", source},
			{"delete", source, "m@0"}, {"prune", "--keep-last=1", source, "m"}, {"snapshot", "create", source, "snap", "m"},
		} {
			if source != store && slices.Contains([]string{"publish", "catalog", "delete", "prune", "snapshot"}, args[0]) {
				continue // these take no address
			}
			var out, errs bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			status := run(ctx, args, nil, &out, &errs)
			cancel()
			text := errs.String() + out.String()
			if status == 0 || !strings.Contains(text, "of format 1: made by an older xetfs") || !strings.Contains(text, "publish the folders anew into an empty store") || args[0] != "mount" && strings.Count(errs.String(), "\n") > 1 {
				t.Errorf("%q: status %d, %s%s", args, status, &errs, &out)
			}
		}
	}
	for k, b := range objects {
		if now, err := os.ReadFile(filepath.Join(store, string(k))); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%s has changed: %v", k, err)
		}
	}
	if out := mustRun(t, "ls", "--bare", store, "by-hash"); !strings.Contains(out, "8000") && len(out) < 60 {
		t.Errorf("bare: %s", out)
	}
}
