package interop

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	slowUpload    = flag.Int64("slow-upload", 24<<20, "bytes that TestHubSlowLink uploads")
	uploaders     = flag.Int("uploaders", 4, "clients of TestHubUploaders")
	uploaderBytes = flag.Int64("uploader-bytes", 16<<20, "bytes of each client of TestHubUploaders")
)

// noiseFolder makes a folder with one file of random bytes.
func noiseFolder(t *testing.T, size int64, seed byte) string {
	t.Helper()
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "noise.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{seed}), size); err != nil {
		t.Fatal(err)
	}
	return folder
}

// An upload passes a link of 50 Mbit/s and 25 ms, which resets the busiest connection twice and stalls
// once. A client sends each xorb in one request, so that a reset costs at most a xorb.
func TestHubSlowLink(t *testing.T) {
	need(t, hubEnv)
	const rate = 50_000_000 / 8
	folder := noiseFolder(t, *slowUpload, 1)
	store := filepath.Join(t.TempDir(), "store")
	address, _ := startServe(t, nil, "--writable", "--cache-dir=off", store)
	link := linktest.New(t, strings.TrimSuffix(address.String(), "/"), linktest.Options{
		Delay: 25 * time.Millisecond, Bandwidth: rate, Uplink: rate,
	})
	h := &hub{Server: &httptest.Server{URL: link.URL}}
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- h.attempt(t.Context(), t, "org/model", folder) }()
	reset := func() {
		if !link.ResetBusiest() {
			t.Error("no connection to reset")
		}
	}
	stall := func() {
		link.Faults.Store(&linktest.Faults{Hold: true})
		time.Sleep(5 * time.Second)
		link.Faults.Store(nil)
	}
	for i, fault := range []func(){reset, stall, reset} {
		for link.Sent() <= *slowUpload*int64(i+1)/4 {
			select {
			case err := <-done:
				t.Fatalf("the client: %v, after %d faults", err, i)
			case <-time.After(20 * time.Millisecond):
			}
		}
		fault()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d bytes: %d sent, %.2f x, in %v, %.2f of the link", *slowUpload, link.Sent(),
		float64(link.Sent())/float64(*slowUpload), took, float64(link.Sent())/took.Seconds()/rate)
	if most := *slowUpload*21/20 + 2*codec.MaxXorbSize; link.Sent() > most {
		t.Errorf("%d bytes were sent, at most %d", link.Sent(), most)
	}
	isUploaded(t, store, "org/model", folder)
}

// Clients upload at once, and the server stays within its memory. The log has the time of the first
// and the last client.
func TestHubUploaders(t *testing.T) {
	need(t, hubEnv)
	store := filepath.Join(t.TempDir(), "store")
	address, server, _ := startServeProcess(t, nil, "--writable", "--cache-dir=off", store)
	h := hubAt(address)
	folders := make([]string, *uploaders)
	for i := range folders {
		folders[i] = noiseFolder(t, *uploaderBytes, byte(i))
	}
	times := make([]time.Duration, *uploaders)
	var g errgroup.Group
	begin := time.Now()
	for i, folder := range folders {
		g.Go(func() error {
			defer func() { times[i] = time.Since(begin) }()
			return h.attempt(t.Context(), t, fmt.Sprint("org/", i), folder)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(times)
	peak := harness.Status(t, server.Pid, "VmHWM")
	t.Logf("%d clients with %d bytes: after %v to %v, peak memory %d MiB", *uploaders, *uploaderBytes, times[0], times[len(times)-1], peak>>20)
	if peak > 512<<20 {
		t.Errorf("peak memory %d MiB, at most 512 MiB", peak>>20)
	}
	for i, folder := range folders {
		isUploaded(t, store, fmt.Sprint("org/", i), folder)
	}
}
