package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
)

// pageAddress returns the address of the status page of a mount, as its log names it.
func pageAddress(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	named := regexp.MustCompile(`event=status_ready address=(http://\S+)`)
	for end := time.Now().Add(patienceOfTests); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		log, err := os.ReadFile(cmd.Stderr.(*os.File).Name())
		if m := named.FindSubmatch(log); err == nil && m != nil && strings.Contains(string(log), "event=mount_ready") {
			return string(m[1])
		}
	}
	t.Fatal("no address in the log")
	return ""
}

// figures returns the document /stats.json.
func figures(t *testing.T, address string) (s status.Stats) {
	t.Helper()
	resp, err := http.Get(address + "stats.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &s) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return s
}

// The figures of a page are those of the reads of this test, and the page ends with the mount.
func TestStatusPage(t *testing.T) {
	dir := t.TempDir()
	cmd, ended := startMount(t, nil, dir, "--status", "127.0.0.1:0", "--push=off") // pushes are no replies
	address := pageAddress(t, cmd)
	before := figures(t, address)
	want := int64(0)
	err := filepath.WalkDir(filepath.Join(dir, "by-hash"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		want += int64(len(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := figures(t, address)
	sum := s.Bytes.Memory + s.Bytes.Disk + s.Bytes.Origin + s.Bytes.Catalog
	if s.Files.Bytes != want || sum != want || before.Files.Bytes != 0 {
		t.Errorf("%d bytes in replies, %d by source, %d read", s.Files.Bytes, sum, want)
	}
	if s.Process.PID != cmd.Process.Pid || s.Process.Mountpoint != dir || s.Operations["read"].Latency.Count != s.Files.Read {
		t.Errorf("figures %+v", s)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if resp, err := http.Get(address); err == nil {
		resp.Body.Close()
		t.Error("the page is served after the mount")
	}
}
