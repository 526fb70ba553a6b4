package signers

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/fs/catalog/signature"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func open(t *testing.T, folder string, log *bytes.Buffer) *Memory {
	t.Helper()
	m, err := OpenMemory(folder, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemory(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	var log bytes.Buffer
	a, b := open(t, folder, &log), open(t, folder, &log)
	if _, ok := a.Shown("id", "m"); ok {
		t.Error("a new memory has a version")
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("reading makes a folder")
	}
	shown := func(version uint64) signature.Shown { return signature.Shown{Version: version, Time: at} }
	a.Remember("id", "m", shown(7), false)
	b.Remember("id", "m", shown(5), false) // another process has shown a newer one
	b.Remember("id", "n", shown(1), false)
	b.Remember("other", "m", shown(2), false)
	want := map[symbolKey]uint64{{"id", "m"}: 7, {"id", "n"}: 1, {"other", "m"}: 2}
	for k, version := range want {
		if got, ok := open(t, folder, &log).Shown(k.catalog, k.symbol); !ok || got.Version != version || !got.Time.Equal(at) {
			t.Errorf("%v: %v, %t, want %d", k, got, ok, version)
		}
	}
	b.Remember("id", "m", shown(5), true)
	if got, _ := open(t, folder, &log).Shown("id", "m"); got.Version != 5 {
		t.Errorf("accepted version is %v", got)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 {
		t.Errorf("folder has %v, %v", left, err)
	}
}

// Processes that change the file at the same time lose no version.
func TestMemoryShared(t *testing.T) {
	folder := t.TempDir()
	var log bytes.Buffer
	var wg sync.WaitGroup
	for i := range 8 {
		m := open(t, folder, &log)
		wg.Go(func() {
			for j := range 5 {
				m.Remember("id", fmt.Sprint(i), signature.Shown{Version: uint64(j), Time: at}, false)
			}
		})
	}
	wg.Wait()
	m := open(t, folder, &log)
	for i := range 8 {
		if got, _ := m.Shown("id", fmt.Sprint(i)); got.Version != 4 {
			t.Errorf("symbol %d: %v", i, got)
		}
	}
}

// A process sees a newer version that another process has stored later, also after it has shown an
// older one itself.
func TestMemoryFollows(t *testing.T) {
	folder := t.TempDir()
	var log bytes.Buffer
	mount, ls := open(t, folder, &log), open(t, folder, &log)
	remember := func(m *Memory, version uint64) {
		m.Remember("id", "m", signature.Shown{Version: version, Time: at}, false)
	}
	want := func(version uint64) {
		t.Helper()
		if got, _ := mount.Shown("id", "m"); got.Version != version {
			t.Errorf("the mount compares with version %d, want %d", got.Version, version)
		}
	}
	remember(mount, 1)
	remember(ls, 3)
	want(3)
	remember(ls, 5)
	remember(mount, 4)
	want(5)
	mount.Remember("id", "m", signature.Shown{Version: 2, Time: at}, true) // an accepted rollback
	want(2)
}

// The file that a killed process was writing is replaced.
func TestMemoryLeavesNoStray(t *testing.T) {
	folder := t.TempDir()
	stray := filepath.Join(folder, memoryName+newSuffix)
	if err := os.WriteFile(stray, []byte(strings.Repeat("half of a file ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	open(t, folder, &log).Remember("id", "m", signature.Shown{Version: 1, Time: at}, false)
	if got, _ := open(t, folder, &log).Shown("id", "m"); got.Version != 1 || log.Len() > 0 {
		t.Errorf("version is %v, log is %s", got, &log)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) != 2 {
		t.Errorf("left are %q, %v, want %s and %s", left, err, memoryName, lockName)
	}
}

// The file has a bound.
func TestMemoryBound(t *testing.T) {
	folder := t.TempDir()
	m := open(t, folder, new(bytes.Buffer))
	f := &memoryFile{Format: memoryFormat}
	for i := range maxRemember {
		f.Shown = append(f.Shown, memoryRow{strings.Repeat("f", 32), fmt.Sprintf("%0120d", i), 1 << 60, at})
	}
	if err := m.write(f); err != nil {
		t.Fatal(err)
	}
	m.Remember("id", "new", signature.Shown{Version: 1, Time: at}, false)
	f, err := m.read()
	if err != nil || len(f.Shown) != maxRemember || f.Shown[maxRemember-1].Symbol != "new" || !strings.HasSuffix(f.Shown[0].Symbol, "01") {
		t.Errorf("%d rows, %v", len(f.Shown), err)
	}
}

func TestMemoryErrors(t *testing.T) {
	for name, text := range map[string]string{"damaged": "{", "newer": `{"format":2}`, "long": strings.Repeat(" ", maxMemory+1)} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, memoryName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMemory(folder, nil); err == nil || !strings.Contains(err.Error(), "delete the file to begin anew") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	m := &Memory{folder: file, log: slog.New(slog.NewTextHandler(&log, nil)), shown: map[symbolKey]signature.Shown{}}
	m.Remember("id", "m", signature.Shown{Version: 1}, false)
	m.Remember("id", "m", signature.Shown{Version: 2}, false)
	if got := log.String(); strings.Count(got, "event=memory_failed") != 1 {
		t.Errorf("log is %s", got)
	}
	if got, _ := m.Shown("id", "m"); got.Version != 2 {
		t.Errorf("version is %v", got)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(path, []byte("me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAllowed(path); err == nil || !strings.HasPrefix(err.Error(), "allowed signers "+path+": line 1: ") {
		t.Errorf("error is %v", err)
	}
	if _, err := Read(path, 2); err == nil || err.Error() != path+": more than 2 bytes" {
		t.Errorf("error is %v", err)
	}
	if _, err := ReadKey(t.Context(), path, ""); err == nil || err.Error() != "key "+path+": it is neither a private key of OpenSSH nor a public one" {
		t.Errorf("error is %v", err)
	}
	if err := os.WriteFile(path, []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{"": "no ssh-agent is known; SSH_AUTH_SOCK names its socket", path + ".none": "ssh-agent: "} {
		if _, err := ReadKey(t.Context(), path, socket); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}
