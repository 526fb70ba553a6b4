package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A Report is what `xetfs verify --json` says.
type Report struct {
	Faults                              []struct{ Path, Kind, Hash string }
	Shards, Xorbs, Chunks, Files, Bytes int64
	Sound                               bool
}

func verifyReport(t *testing.T, source string) (r Report) {
	t.Helper()
	out, err := exec.Command(harness.Program(t), "verify", "--json", source).Output()
	if len(out) == 0 {
		t.Fatalf("verify: %v\n%s", err, harness.StderrOf(err))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds returns the faults of a report, in order, without their reasons. Reasons have paths of a
// folder or keys of a server.
func (r Report) kinds() (all []string) {
	for _, f := range r.Faults {
		all = append(all, f.Kind+" "+f.Hash)
	}
	slices.Sort(all)
	return all
}

// verify of a remote store fetches each xorb once, in large pieces, though two shards have files in
// the xorb. It finds the same faults as verify of the folder.
func TestRemoteVerifyOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, store := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "store")
	for _, folder := range []string{first, second} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	large := harness.Noise(1, 70<<20) // it continues in a second xorb
	smallFiles(t, first, 500)
	harness.WriteFile(t, filepath.Join(first, "large"), large)
	harness.WriteFile(t, filepath.Join(second, "most of it"), large[:50<<20])
	smallFiles(t, filepath.Join(second, "again"), 100)
	pack(t, store, first)
	pack(t, store, second)
	s := harness.ServeRemote(t, store, "--delay=5ms")
	stored := harness.XorbBytes(t, store)
	xorbs, err := filepath.Glob(filepath.Join(store, "tdata", "xorb", "*", "*.xorb"))
	if err != nil {
		t.Fatal(err)
	}
	before := s.Traffic()
	remote := verifyReport(t, s.URL)
	sent := s.Since(before)
	t.Logf("%d bytes in %d xorbs: %+v", stored, len(xorbs), sent)
	if local := verifyReport(t, store); !remote.Sound || remote.Files != local.Files || remote.Bytes != local.Bytes || remote.Xorbs != local.Xorbs || remote.Chunks != local.Chunks {
		t.Errorf("%+v, in the folder %+v", remote, local)
	}
	again := sent.Hedged()
	if sent.DataBytes < stored || sent.DataBytes > stored+again<<22 || sent.DataRequests > stored>>22+int64(len(xorbs))+again {
		t.Errorf("%d bytes of xorbs came in %d requests, there are %d", sent.DataBytes, sent.DataRequests, stored)
	}

	b, err := os.ReadFile(xorbs[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.Chmod(xorbs[0], 0o644); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, xorbs[0], b)
	if err := os.Remove(xorbs[1]); err != nil {
		t.Fatal(err)
	}
	remote = verifyReport(t, harness.ServeRemote(t, store).URL) // a server still serves its open files
	local := verifyReport(t, store)
	if local.Sound || !slices.Equal(remote.kinds(), local.kinds()) {
		t.Errorf("faults %v, in the folder %v", remote.kinds(), local.kinds())
	}
}
