package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var getKills = flag.Int("get-kills", 5, "how often a get is killed")

// variedTree makes a folder with files of many sizes, modes, times and links.
func variedTree(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, folder, 300)
	for name, size := range map[string]int{"empty": 0, "inline": 200, "chunk": 60_000, "large": 20 << 20, "odd \n\x1b name": 9 << 20} {
		harness.WriteFile(t, filepath.Join(folder, name), harness.Noise(uint64(size), size))
	}
	newEditor(t, folder, 8).edit(40)
	for target, link := range map[string]string{"../../..": "out", "nowhere": "dangling", "/etc/passwd": "absolute"} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// getCommand returns the command that copies the symbol s of a source into a folder.
func getCommand(t testing.TB, source, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(harness.Program(t), "get", "--json", source, "s", folder)
	cmd.Env = harness.Environment()
	return cmd
}

// A getResult is what `xetfs get --json` prints.
type getResult struct{ Files, Already, Failed, Written int64 }

// runGet copies and returns the exit status.
func runGet(t testing.TB, source, folder string) (said getResult, status int, stderr string) {
	t.Helper()
	cmd := getCommand(t, source, folder)
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &said); err != nil {
			t.Fatal(err)
		}
	}
	return said, cmd.ProcessState.ExitCode(), notes.String()
}

// A copy from each kind of source equals the published folder.
func TestGet(t *testing.T) {
	t.Parallel()
	folder, store := variedTree(t), filepath.Join(t.TempDir(), "store")
	harness.Publish(t, store, "s", folder)
	want := listTree(t, folder)
	for name, source := range map[string]string{
		"folder": store,
		"web":    harness.ServeRemote(t, store).URL,
	} {
		out := filepath.Join(t.TempDir(), "out")
		said, status, stderr := runGet(t, source, out)
		if status != 0 || said.Already != 0 || stderr != "" {
			t.Errorf("%s: exit status %d, %+v, %s", name, status, said, stderr)
		}
		want.same(t, name, listTree(t, out))
		if again, status, _ := runGet(t, source, out); status != 0 || again.Already != again.Files || again.Written != 0 {
			t.Errorf("%s again: exit status %d, %+v", name, status, again)
		}
	}
}

// Small files from a server share requests, and few bytes are fetched twice.
func TestGetRequests(t *testing.T) {
	t.Parallel()
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	smallFiles(t, folder, 2000)
	bytes := harness.Publish(t, store, "s", folder).Bytes
	server, out := harness.ServeRemote(t, store), filepath.Join(t.TempDir(), "out")
	if _, status, stderr := runGet(t, server.URL, out); status != 0 {
		t.Fatalf("exit status %d, %s", status, stderr)
	}
	listTree(t, folder).same(t, "copy", listTree(t, out))
	sent := server.Traffic()
	t.Logf("%+v for %d bytes", sent, bytes)
	// Requests span gaps of chunks that others have fetched, more of them on a busy machine.
	if sent.DataRequests > 100 || sent.DataBytes > bytes*5/4 {
		t.Errorf("%d requests and %d bytes for 2,000 files of %d bytes", sent.DataRequests, sent.DataBytes, bytes)
	}
}

// A get that is killed at any moment leaves complete files and partial ones with names of their
// own. The next run completes the copy.
func TestGetKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	folder, store := variedTree(t), filepath.Join(t.TempDir(), "store")
	harness.Publish(t, store, "s", folder)
	want := listTree(t, folder)
	source := harness.ServeRemote(t, store, "--bandwidth=100MB").URL
	length, rng, cut := time.Duration(0), rand.New(rand.NewPCG(8, 0)), 0
	for kill := range *getKills + 1 {
		out := filepath.Join(t.TempDir(), "out")
		if kill > 0 && killGet(t, source, out, time.Duration(rng.Int64N(int64(length)+1))) {
			cut++
		}
		completeFiles(t, folder, out)
		started := time.Now()
		if _, status, stderr := runGet(t, source, out); status != 0 {
			t.Fatalf("kill %d: exit status %d, %s", kill, status, stderr)
		}
		if kill == 0 {
			length = time.Since(started)
		}
		want.same(t, "after a kill", listTree(t, out))
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d runs were killed before their end", cut, *getKills)
}

// A large file is continued after the end of a get, whatever ended it. Bytes of an earlier run that
// are wrong are replaced.
func TestGetResumes(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, size))
	harness.Publish(t, store, "s", folder)
	first, server := stopAt(t, harness.ServeRemote(t, store).URL, size/2), harness.ServeRemote(t, store)
	for name, end := range map[string]struct {
		signal os.Signal
		change func(part *os.File) error // after the first run
		most   func(have int64) int64    // bytes that the second run requests
	}{
		"killed":      {os.Kill, nil, func(have int64) int64 { return size - have + 2<<20 }},
		"interrupted": {os.Interrupt, nil, func(have int64) int64 { return size - have + 2<<20 }},
		"wrong": {os.Kill, func(part *os.File) error {
			_, err := part.WriteAt([]byte("wrong"), 4<<20)
			return err
		}, func(have int64) int64 { return 2*size - have + 4<<20 }},
		"of a larger file": {os.Kill, func(part *os.File) error { return part.Truncate(2 * size) },
			func(int64) int64 { return size + 2<<20 }},
	} {
		out := filepath.Join(t.TempDir(), "out")
		cmd := getCommand(t, first, out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var part string
		var have int64
		harness.WaitUntil(t, "a third is there", func() bool {
			parts, _ := filepath.Glob(filepath.Join(out, ".xetfs-get-*"))
			if len(parts) == 0 {
				return false
			}
			part = parts[0]
			info, err := os.Stat(part)
			return err == nil && info.Size() > size/3
		})
		if err := cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // by the signal
		f, err := os.OpenFile(part, os.O_RDWR, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if info, err := f.Stat(); err != nil {
			t.Fatal(err)
		} else {
			have = info.Size()
		}
		if end.change != nil {
			if err := end.change(f); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		before := server.Traffic()
		if _, status, stderr := runGet(t, server.URL, out); status != 0 {
			t.Errorf("%s: exit status %d, %s", name, status, stderr)
		}
		if sent := server.Since(before); sent.DataBytes > end.most(have)+sent.Hedged()<<22 {
			t.Errorf("%s: %d bytes were requested, %d of %d were there", name, sent.DataBytes, have, size)
		}
		listTree(t, folder).same(t, name, listTree(t, out))
	}
}

// killGet starts a get and kills it after some time. It reports whether the get was running.
func killGet(t *testing.T, source, out string, after time.Duration) bool {
	t.Helper()
	cmd := getCommand(t, source, out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return cmd.Wait() != nil
}

// completeFiles compares each file of a copy that has its final name.
func completeFiles(t *testing.T, folder, out string) {
	t.Helper()
	if _, err := os.Lstat(out); err != nil {
		return // it was killed before
	}
	for _, rel := range harness.FilesBelow(t, out) {
		if strings.HasPrefix(filepath.Base(rel), ".xetfs-get-") {
			continue
		}
		want, err := os.ReadFile(filepath.Join(folder, rel))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(out, rel)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes, %v, want %d", rel, len(got), err, len(want))
		}
	}
}

// A full disk ends the command with one line. Complete files stay, and with more space the next
// run completes the copy.
func TestGetFullDisk(t *testing.T) {
	t.Parallel()
	folder, store := variedTree(t), filepath.Join(t.TempDir(), "store")
	harness.Publish(t, store, "s", folder)
	disk := &CacheFolder{}
	onTmpfs(t, disk, "size=12m")
	out := disk.Dir
	_, status, stderr := runGet(t, store, out)
	if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no space left on device; free some space and try again") {
		t.Errorf("exit status %d, %s", status, stderr)
	}
	completeFiles(t, folder, out)
	for _, name := range harness.FilesBelow(t, out) {
		if strings.HasPrefix(filepath.Base(name), ".xetfs-get-") {
			t.Errorf("%s is left", name)
		}
	}
	if err := unix.Mount("tmpfs", filepath.Dir(out), "tmpfs", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	if _, status, stderr := runGet(t, store, out); status != 0 {
		t.Errorf("exit status %d, %s", status, stderr)
	}
	listTree(t, folder).same(t, "with more space", listTree(t, out))
}

// BenchmarkGet copies a tree with get, and with cp -r from a cold mount of the same source.
func BenchmarkGet(b *testing.B) {
	harness.NeedFuse(b)
	folder, store := filepath.Join(b.TempDir(), "folder"), filepath.Join(b.TempDir(), "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	smallFiles(b, folder, 3000)
	harness.WriteFile(b, filepath.Join(folder, "large"), harness.Noise(9, 400<<20))
	size := harness.Publish(b, store, "s", folder).Bytes
	for name, source := range map[string]string{
		"folder": store,
		"web":    harness.ServeRemote(b, store).URL,
		"25ms":   harness.ServeRemote(b, store, "--delay=25ms").URL,
	} {
		b.Run(name+"/get", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				cmd := getCommand(b, source, filepath.Join(b.TempDir(), "out"))
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				use := cmd.ProcessState
				b.ReportMetric((use.UserTime()+use.SystemTime()).Seconds()/(float64(size)/1e9), "cpu-s/GB")
			}
		})
		b.Run(name+"/cp", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				b.StopTimer()
				out := filepath.Join(b.TempDir(), "out")
				m := harness.MountSource(b, source, "--symbol=s", "--cache-dir=off")
				b.StartTimer()
				cmd := exec.Command("cp", "-r", m.Path("."), out)
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				ticks, err := harness.CPUTicks(m.Pid())
				if err != nil {
					b.Fatal(err)
				}
				use := cmd.ProcessState
				all := use.UserTime() + use.SystemTime() + time.Duration(ticks)*10*time.Millisecond
				b.ReportMetric(all.Seconds()/(float64(size)/1e9), "cpu-s/GB")
				m.Unmount()
				b.StartTimer()
			}
		})
	}
}
