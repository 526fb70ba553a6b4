package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
)

// A packResult is what one run of pack says.
type packResult struct {
	status int
	stderr string
	List   []packedFile
	Files  int64
	Bytes  int64

	Skipped []ui.Skipped
}

// A packedFile is a file in the list of pack --json.
type packedFile struct {
	Path   string
	Size   int64
	Hash   codec.Hash
	SHA256 *string
}

func packJSON(t *testing.T, ctx context.Context, args ...string) packResult {
	t.Helper()
	var r packResult
	r.status, r.stderr = runJSON(t, ctx, &r, append([]string{"pack", "--json", "--list"}, args...)...)
	return r
}

// runJSON runs a command that prints JSON, and decodes that if the command succeeds.
func runJSON(t *testing.T, ctx context.Context, answer any, args ...string) (status int, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = run(ctx, args, strings.NewReader(""), &out, &errOut)
	if status == exitGood || status == exitIncomplete {
		if err := json.Unmarshal(out.Bytes(), answer); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
	}
	return status, errOut.String()
}

// checkEnd checks the exit status of a command, and that it says one line with this in it,
// or nothing.
func checkEnd(t *testing.T, status int, stderr string, want int, line string) {
	t.Helper()
	if status != want || line == "" && stderr != "" || !strings.Contains(stderr, line) || strings.Count(stderr, "\n") > 1 {
		t.Errorf("status %d, %q; want %d and %q", status, stderr, want, line)
	}
}

// isSound checks that verify finds nothing wrong.
func isSound(t *testing.T, store string) {
	t.Helper()
	var out bytes.Buffer
	if status := run(t.Context(), []string{"verify", store}, strings.NewReader(""), &out, io.Discard); status != exitGood {
		t.Errorf("verify: status %d\n%s", status, out.Bytes())
	}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A changingFile is a file that another process changes all the time.
type changingFile struct {
	name   string
	change func(path string, i int)
	states func(size int64) [][]byte // that a file of this size may have
}

// changingFiles are files that begin with the content a, and have that of b now and then.
func changingFiles(a, b []byte) []changingFile {
	const turns = "abcdefgh" // the values of two bytes
	return []changingFile{
		{"grows", func(path string, _ int) {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return
			}
			defer f.Close()
			f.Write(a[:len(a)/300])
		}, func(size int64) [][]byte { return [][]byte{bytes.Repeat([]byte("a"), int(size))} }},
		{"shrinks", func(path string, i int) {
			os.Truncate(path, int64(len(a)-len(a)/3000*i%len(a)))
		}, func(size int64) [][]byte { return [][]byte{a[:min(len(a), int(size))]} }},
		{"is swapped", func(path string, i int) {
			os.WriteFile(path+".new", [][]byte{a, b}[i%2], 0o644)
			os.Rename(path+".new", path)
		}, func(int64) [][]byte { return [][]byte{a, b} }},
		{"disappears and comes back", func(path string, i int) {
			os.Remove(path)
			os.WriteFile(path+".new", a, 0o644)
			os.Rename(path+".new", path)
		}, func(int64) [][]byte { return [][]byte{a} }},
		{"becomes a pipe and a file", func(path string, i int) {
			os.Remove(path)
			if i%2 == 0 {
				unix.Mkfifo(path, 0o644)
				return
			}
			os.WriteFile(path, b, 0o644)
		}, func(size int64) [][]byte { return [][]byte{b[:min(len(b), int(size))]} }},
		// The kernel sets the time of change before it copies the bytes, so only writes of a byte are atomic.
		{"is overwritten in place", func(path string, i int) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return
			}
			defer f.Close()
			f.WriteAt([]byte{turns[i%len(turns)]}, 0)
			f.WriteAt([]byte{turns[i%len(turns)]}, int64(len(a)-1))
		}, func(size int64) (states [][]byte) {
			for i := range turns {
				for first := range 2 { // the first byte may be ahead of the last one
					state := bytes.Repeat([]byte("a"), int(size))
					state[0], state[size-1] = turns[(i+first)%len(turns)], turns[i]
					states = append(states, state)
				}
			}
			return states
		}},
	}
}

// S05: a file that changes all the time is packed as it was at some moment, or
// named and left out. The files beside it are packed in any case.
func TestS05_FileThatChanges(t *testing.T) {
	a, b := bytes.Repeat([]byte("a"), 3_000_000), bytes.Repeat([]byte("b"), 2_000_000)
	for _, tt := range changingFiles(a, b) {
		t.Run(tt.name, func(t *testing.T) {
			in, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
			path := filepath.Join(in, "m")
			writeFile(t, filepath.Join(in, "a"), a[:1000])
			writeFile(t, path, a)
			writeFile(t, filepath.Join(in, "z"), b[:1000])
			stop := changeAllTheTime(path, tt.change)
			defer stop()
			for range 5 {
				r := packJSON(t, t.Context(), store, in)
				if !isIncomplete(r.status, r.Skipped, path) || len(r.List) < 2 {
					t.Fatalf("status %d, files %v, %s", r.status, r.List, r.stderr)
				}
				for _, f := range r.List {
					if f.Path == path && !anySum(tt.states(f.Size), *f.SHA256) {
						t.Errorf("packed in a state that never was: %+v", f)
					}
				}
			}
			stop()
			isSound(t, store)
		})
	}
}

// isIncomplete reports whether the exit status of pack or publish is right. Only one path, or
// the file that replaces it, may be missing.
func isIncomplete(status int, skipped []ui.Skipped, path string) bool {
	want := exitGood
	for _, s := range skipped {
		if s.Path != path && s.Path != path+".new" {
			return false
		}
		if s.Missing { // no pipe in its place
			want = exitIncomplete
		}
	}
	return status == want
}

// changeAllTheTime changes a file until stop is called.
func changeAllTheTime(path string, change func(path string, i int)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			change(path, i)
			time.Sleep(time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func anySum(states [][]byte, want string) bool {
	for _, s := range states {
		if sum := sha256.Sum256(s); hex.EncodeToString(sum[:]) == want {
			return true
		}
	}
	return false
}

// S05: a socket.
func TestS05_Socket(t *testing.T) {
	in := t.TempDir()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	t.Chdir(in) // the path of a socket must be short
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "s"}); err != nil {
		t.Skip(err)
	}
	r := packJSON(t, t.Context(), t.TempDir(), in)
	if len(r.Skipped) != 1 || r.Skipped[0].Why != "a socket; only regular files are packed" {
		t.Errorf("skipped %v", r.Skipped)
	}
}

// smallDisk is a disk of 2 MiB until the end of the test, and what mounts it anew.
func smallDisk(t *testing.T) (disk string, remount func(flags uintptr, options string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small tmpfs")
	}
	disk = t.TempDir()
	mount := func(flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount("tmpfs", disk, "tmpfs", flags, options); err != nil {
			t.Skip(err)
		}
	}
	mount(0, "size=2m")
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk, func(flags uintptr, options string) {
		t.Helper()
		mount(unix.MS_REMOUNT|flags, options)
	}
}

// A full or read-only disk is one line of error. With free space the next run continues.
func TestPackCannotWrite(t *testing.T) {
	disk, remount := smallDisk(t)
	in := t.TempDir()
	random, err := os.ReadFile("/proc/self/exe") // some 20 MB
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(in, "a"), random)
	store := filepath.Join(disk, "store")
	pack := func(status int, line string) {
		t.Helper()
		r := packJSON(t, t.Context(), store, in)
		checkEnd(t, r.status, r.stderr, status, line)
	}
	pack(exitFailed, "no space left on device")
	if shards, err := filepath.Glob(filepath.Join(store, "tdata", "shard", "*", "*")); err != nil || len(shards) > 0 {
		t.Errorf("a full disk has the shards %q, %v", shards, err)
	}
	remount(0, "size=200m")
	pack(exitGood, "")
	isSound(t, store)
	remount(unix.MS_RDONLY, "")
	pack(exitFailed, store+": read-only file system")
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.00 KiB", 10_239: "10.0 KiB",
		99_999: "97.7 KiB", 1 << 20: "1.00 MiB", 1000 << 10: "0.98 MiB", 5 << 30: "5.00 GiB", 1<<63 - 1: "8.00 EiB",
	} {
		if got := ui.HumanSize(n); got != want {
			t.Errorf("human(%d) = %q, want %q", n, got, want)
		}
	}
}

// Verify reports a damaged listing, and the next publish writes it again.
func TestVerifyListing(t *testing.T) {
	dir := t.TempDir()
	folder, store := filepath.Join(dir, "in"), filepath.Join(dir, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "a"), []byte("content"))
	mustRun(t, "publish", store, "m", folder)
	mustRun(t, "verify", store)
	listed := filepath.Join(store, "xetfs.list")
	b, err := os.ReadFile(listed)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	writeFile(t, listed, b)
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"verify", store}, nil, &out, &errs); status != exitDamage || !strings.HasPrefix(out.String(), "xetfs.list: ") {
		t.Errorf("status %d: %s%s", status, &out, &errs)
	}
	mustRun(t, "publish", store, "m", folder)
	mustRun(t, "verify", store)
}
