package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var clientsTime = flag.Duration("bench-hub-time", time.Minute, "time that the 64 clients read from each server")

const (
	manyClients   = 64
	clientsMiB    = 64  // size of their file
	clientsMemory = 256 // MiB of the server for chunks
)

// benchHubClients compares the rate of 64 clients, half hf_xet and half curl, with that of 64 curl
// at a server of plain objects. The link is slower than the machine, because the clients share it.
func benchHubClients(t *testing.T, b *hubBench) {
	python := hfPython(t)
	if python == "" {
		return
	}
	folder, store := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "store")
	noiseKind.lay(t, folder, clientsMiB<<20)
	harness.Publish(t, store, "bench/many", folder)
	xorb := largestXorb(t, store)
	for round := range *benchRounds {
		b.many(t, servePlain, harness.ServeRemote(t, store), round, func(ctx context.Context, address string, _ int) *exec.Cmd {
			return curlLoop(ctx, address+"/"+xorb)
		})
		b.many(t, ours, harness.ServeHub(t, store, fmt.Sprintf("--memory=%dMiB", clientsMemory)), round, func(ctx context.Context, address string, i int) *exec.Cmd {
			if i%2 == 0 {
				return curlLoop(ctx, address+"/bench/many/resolve/main/file")
			}
			return downloadLoop(ctx, python, address, t.TempDir())
		})
	}
}

// largestXorb returns the path of the largest xorb in a store.
func largestXorb(t *testing.T, store string) (path string) {
	t.Helper()
	most := int64(0)
	for _, name := range harness.FilesBelow(t, store) {
		if info, err := os.Stat(filepath.Join(store, name)); err == nil && strings.HasSuffix(name, ".xorb") && info.Size() > most {
			path, most = name, info.Size()
		}
	}
	return path
}

// curlLoop loads an address again and again.
func curlLoop(ctx context.Context, address string) *exec.Cmd {
	return exec.CommandContext(ctx, "curl", "--fail", "--fail-early", "--silent", "--show-error", "--output", "/dev/null", address+"?n=[1-1000000]")
}

// downloadLoop downloads the file with hf_xet again and again.
func downloadLoop(ctx context.Context, python, address, home string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, python, "-c", `
import hf_xet
from huggingface_hub import hf_hub_download
open("begun", "w").close()
while True:
    hf_hub_download("bench/many", "file", local_dir=".", force_download=True)
`)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+address, "HF_HOME="+home, "HF_HUB_DISABLE_PROGRESS_BARS=1")
	return cmd
}

// awaitBegun waits until all programs of downloadLoop have loaded their libraries. 32 of them need
// half a minute of processor time for it.
func awaitBegun(t *testing.T, homes []string) {
	t.Helper()
	for _, home := range homes {
		for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(home, "begun")); err == nil {
				break
			}
			if time.Since(start) > 5*time.Minute {
				t.Fatal("a client has not begun")
			}
		}
	}
}

// many measures a server with 64 clients and stops it.
func (b *hubBench) many(t *testing.T, system string, remote *harness.RemoteServer, round int, client func(ctx context.Context, address string, i int) *exec.Cmd) {
	t.Helper()
	server := &hubServer{remote}
	address, link := server.connect(t, gigabit)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, ended := link.Bytes(), make(chan error, manyClients)
	var homes []string
	for i := range manyClients {
		cmd := client(ctx, address, i)
		if cmd.Dir != "" {
			homes = append(homes, cmd.Dir)
		}
		go func() {
			out, err := cmd.CombinedOutput()
			ended <- fmt.Errorf("%w\n%s", err, out)
		}()
	}
	awaitBegun(t, homes)
	time.Sleep(*clientsTime / 10)
	before, cpu, own, start := link.Bytes(), server.CPU(), usageOf(t, unix.RUSAGE_SELF), time.Now()
	select {
	case err := <-ended:
		t.Fatalf("a client of %s ended: %v", system, err)
	case <-time.After(*clientsTime):
	}
	add := func(what, unit string, value float64) {
		b.add("P14", "64 clients over 25 ms and 1 Gbit/s"+what, unit, system, round, value)
	}
	bytes := float64(link.Bytes() - before)
	add("", "MB/s", bytes/time.Since(start).Seconds()/1e6)
	add(": CPU of the server", "s/GB", (server.CPU()-cpu)/(bytes/1e9))
	add(": CPU of the link", "s/GB", (usageOf(t, unix.RUSAGE_SELF)-own)/(bytes/1e9))
	children := usageOf(t, unix.RUSAGE_CHILDREN)
	cancel()
	for range manyClients {
		<-ended
	}
	add(": CPU of the clients, their start included", "s/GB", (usageOf(t, unix.RUSAGE_CHILDREN)-children)/(float64(link.Bytes()-first)/1e9))
	add(": peak memory of the server", "MiB", float64(harness.Status(t, server.Cmd.Process.Pid, "VmHWM"))/(1<<20))
	harness.WaitUntil(t, "only the listener is open", func() bool { return sockets(t, server.Cmd.Process.Pid) == 1 })
	server.Stop()
}

// sockets returns the number of sockets of a process.
func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(folder, name.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
