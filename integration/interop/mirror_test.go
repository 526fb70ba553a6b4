package interop

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
)

// A mirror fetches each byte once for clients of all kinds, and serves what it has while the Hub
// is down.
func TestHubMirror(t *testing.T) {
	folder := hubFolder(t)
	store := filepath.Join(t.TempDir(), "store")
	xetfs(t, "publish", store, "org/model", folder)
	upstream, stop := startServe(t, nil, store)
	env := []string{"HF_ENDPOINT=http://" + upstream.Host, "XDG_CACHE_HOME=" + t.TempDir(), "HF_TOKEN="}
	target, _ := startServe(t, env, "hf://org/model")
	h := recordHub(t, folder, target)
	download := func(venv, xet string) {
		t.Helper()
		var s snapshot
		hubPython(t, venv, h.env(t.TempDir(), "HF_HUB_DISABLE_XET="+xet), map[string]any{"do": "snapshot", "repo": "org/model"}, &s)
		h.isTree(t, s.Path)
	}
	newest, oldest := need(t, hubEnv), need(t, hubOldEnv)
	download(newest, "0")
	fetched := dataBytes(t, upstream.Host)
	download(newest, "1")
	download(oldest, "0")
	if again := dataBytes(t, upstream.Host); again != fetched {
		t.Errorf("%d bytes were fetched for the first client, and %d for others", fetched, again-fetched)
	}
	t.Logf("%d bytes of xorbs fetched", fetched)
	stop()
	download(newest, "0")
	download(newest, "1")
}

// dataBytes returns the bytes of xorbs that a server has sent.
func dataBytes(t *testing.T, host string) int64 {
	t.Helper()
	r, err := http.Get("http://" + host + "/-/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var stats struct {
		DataBytes int64 `json:"data_bytes"`
	}
	if err := json.NewDecoder(r.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	return stats.DataBytes
}
