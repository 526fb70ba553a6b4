package integration

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Files of many shards are opened in random order, with memory for few of those shards and
// without a cache folder. Beside one whole read of each shard, an open reads at most 64 KiB
// of shards.
func TestOpensOverManyShards(t *testing.T) {
	const perOpen = 64 << 10
	shards, files := 5, 300
	if *fullSize {
		shards, files = 100, 1000
	}
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	publishShards(t, store, folder, shards, files)
	sizes := shardSizes(t, store)
	var whole int64
	for _, size := range sizes {
		whole += size
	}
	if len(sizes) != shards {
		t.Fatalf("%d shards, want %d", len(sizes), shards)
	}

	t.Run("folder", func(t *testing.T) {
		m := mountBounded(t, store, "--cache-dir=off", "--materialize=never")
		trace := traceReads(t, m.Pid(), slices.Collect(maps.Keys(sizes)))
		openAll(t, m, folder, shards, files, func() {})
		read, calls := trace.stop()
		t.Logf("%d opens: %d bytes of shards were read in %d calls; the shards have %d", shards*files, read, calls, whole)
		if most := whole + int64(shards*files)*perOpen; read == 0 || read > most {
			t.Errorf("%d bytes of shards were read, want at most %d", read, most)
		}
		wantBounded(t, m)
	})

	t.Run("https", func(t *testing.T) {
		server := &shardServer{next: http.FileServer(http.Dir(store)), sent: map[string]int64{}}
		https := httptest.NewTLSServer(server)
		t.Cleanup(https.Close)
		roots := filepath.Join(t.TempDir(), "roots.pem")
		harness.WriteFile(t, roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}))
		t.Setenv("SSL_CERT_FILE", roots)
		m := mountBounded(t, https.URL, "--cache-dir=off")
		total, largest, requests := int64(0), int64(0), 0
		wholeRead := map[string]bool{}
		openAll(t, m, folder, shards, files, func() {
			sent, n := server.take()
			requests += n
			for path, bytes := range sent {
				total += bytes
				if bytes > perOpen && !wholeRead[path] {
					wholeRead[path] = true
					bytes = max(0, bytes-sizes[filepath.Join(store, path)])
				}
				largest = max(largest, bytes)
			}
		})
		t.Logf("%d opens: %d requests for %d bytes of shards, which have %d; %d whole reads, else at most %d bytes in an open",
			shards*files, requests, total, whole, len(wholeRead), largest)
		if most := whole + int64(shards*files)*perOpen; total > most || largest > perOpen {
			t.Errorf("%d bytes of shards were sent, want at most %d; %d bytes for one open", total, most, largest)
		}
		wantBounded(t, m)
	})
}

// publishShards publishes files of more than 256 bytes, so that each symbol has a shard.
func publishShards(t *testing.T, store, folder string, shards, files int) {
	t.Helper()
	for i := range shards {
		sub := filepath.Join(folder, fmt.Sprintf("s%03d", i))
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			harness.WriteFile(t, filepath.Join(sub, fmt.Sprintf("f%04d", j)), shardFile(i, j))
		}
		harness.Publish(t, store, filepath.Base(sub), sub)
	}
}

func shardFile(i, j int) []byte {
	return harness.Noise(uint64(i*10_000+j), 300+j%7)
}

// shardSizes returns the sizes of the shards of files, by path.
func shardSizes(t *testing.T, store string) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	for _, path := range harness.FilesBelow(t, store) {
		if filepath.Ext(path) != ".shard" {
			continue
		}
		path = filepath.Join(store, path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes[path] = info.Size()
	}
	return sizes
}

// openAll opens and reads each file once, in random order.
func openAll(t *testing.T, m *harness.Mount, folder string, shards, files int, opened func()) {
	t.Helper()
	for _, n := range rand.New(rand.NewPCG(1, 1)).Perm(shards * files) {
		i, j := n/files, n%files
		path := filepath.Join(fmt.Sprintf("s%03d", i), fmt.Sprintf("f%04d", j))
		if b, err := os.ReadFile(m.Path(path)); err != nil || !bytes.Equal(b, shardFile(i, j)) {
			t.Fatalf("%s: %d bytes, %v", path, len(b), err)
		}
		opened()
	}
}

// A readTrace is the strace of a process that reports its reads of some files.
type readTrace struct {
	t   *testing.T
	cmd *exec.Cmd
	out string
}

// traceReads attaches strace to a process.
func traceReads(t *testing.T, pid int, paths []string) *readTrace {
	t.Helper()
	r := &readTrace{t: t, out: filepath.Join(t.TempDir(), "trace")}
	args := []string{"-f", "-s", "0", "-o", r.out, "-e", "trace=read,readv,pread64,preadv,preadv2,mmap,sendfile,copy_file_range,splice"}
	for _, path := range paths {
		args = append(args, "-P", path)
	}
	r.cmd = exec.Command(harness.NeedTool(t, "strace"), append(args, "-p", strconv.Itoa(pid))...)
	said, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.cmd.Process.Kill() //nolint:errcheck // it may have ended
		r.cmd.Wait()         //nolint:errcheck // the same
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), " attached") || strings.Contains(lines.Text(), " attached with ") {
			go io.Copy(io.Discard, said) //nolint:errcheck // later threads
			return r
		}
		if !strings.Contains(lines.Text(), "Requested path") {
			t.Skipf("strace does not work here: %s", lines.Text())
		}
	}
	t.Skip("strace does not work here")
	return nil
}

// stop detaches strace and returns the bytes and the number of the reads.
func (r *readTrace) stop() (bytes int64, calls int) {
	r.t.Helper()
	r.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
	r.cmd.Wait()                       //nolint:errcheck // an interrupt is its usual end
	trace, err := os.ReadFile(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(trace)) {
		if i := strings.LastIndex(line, " = "); i >= 0 {
			if n, err := strconv.ParseInt(strings.TrimSpace(line[i+3:]), 10, 64); err == nil && n > 0 {
				bytes, calls = bytes+n, calls+1
			}
		}
		if strings.Contains(line, "mmap(") {
			r.t.Errorf("a shard is mapped: %s", line)
		}
	}
	return bytes, calls
}

// A shardServer counts the bytes of shards that another handler sends.
type shardServer struct {
	next     http.Handler
	mu       sync.Mutex
	sent     map[string]int64 // by path; guarded by mu
	requests int              // guarded by mu
}

// ServeHTTP implements http.Handler.
func (s *shardServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".shard") {
		s.mu.Lock()
		s.requests++
		s.mu.Unlock()
		w = &countedWriter{w, s, r.URL.Path}
	}
	s.next.ServeHTTP(w, r)
}

// take returns what was sent since the last call.
func (s *shardServer) take() (sent map[string]int64, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, requests = s.sent, s.requests
	s.sent, s.requests = map[string]int64{}, 0
	return sent, requests
}

// A countedWriter is a response whose bytes are counted before they are sent.
type countedWriter struct {
	http.ResponseWriter
	server *shardServer
	path   string
}

func (w *countedWriter) Write(b []byte) (int, error) {
	w.server.mu.Lock()
	w.server.sent[w.path] += int64(len(b))
	w.server.mu.Unlock()
	return w.ResponseWriter.Write(b)
}
