package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// A Published is what `xetfs publish --json` prints.
type Published struct {
	Version        *uint64 // nil in a dry run
	Root           string  // identity
	Published      bool
	Entries        int64
	FolderEntries  int64 `json:"folder_entries"`
	Files          int64
	Bytes          int64
	UnchangedFiles int64 `json:"unchanged_files"`
	InlineFiles    int64 `json:"inline_files"`
	Pages          int64
	NewBytes       int64 `json:"new_bytes"`
	Seconds        float64
}

// Publish publishes a folder. The record of the folder is beside the store.
func Publish(t testing.TB, store, symbol, folder string, flags ...string) Published {
	t.Helper()
	out, err := PublishCommand(t, store, symbol, folder, flags...).Output()
	if err != nil {
		t.Fatalf("publish %s: %v\n%s", folder, err, StderrOf(err))
	}
	var p Published
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// PublishCommand returns the command of Publish. Its record of the folder is beside the store.
func PublishCommand(t testing.TB, store, symbol, folder string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Program(t), append([]string{"publish", "--json", store, symbol, folder}, flags...)...)
	cmd.Env = Environment("XDG_CACHE_HOME=" + store + ".remembered")
	return cmd
}

// StderrOf returns the end of what a failed command printed to standard error.
func StderrOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output wraps nothing
		return Tail(string(exit.Stderr), 4000)
	}
	return ""
}

// PackFolder stores a folder with `xetfs pack`.
func PackFolder(t *testing.T, storeDir, folder string) map[string]Stored {
	t.Helper()
	cmd := exec.Command(Program(t), "pack", "--json", "--list", storeDir, folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("xetfs pack: %v", err)
	}
	var said struct {
		List []struct {
			Path, Hash string
			Size       int64
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("xetfs pack: %v", err)
	}
	files := map[string]Stored{}
	for _, f := range said.List {
		name, err := packedName(folder, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := codec.ParseHash(f.Hash)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = Stored{Hash: h, Size: f.Size}
	}
	return files
}

// packedName is the name in folder of a path that pack has listed.
func packedName(folder, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return path, nil
	}
	name, err := filepath.Rel(folder, path)
	if err != nil || strings.HasPrefix(name, "..") {
		return "", fmt.Errorf("xetfs pack lists %s, which is not in %s", path, folder)
	}
	return name, nil
}
