package integration

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A renamed repository is read under its old name, before and after the rename.
func TestHubRenamed(t *testing.T) {
	harness.NeedFuse(t)
	server := hubtest.New(t)
	files := []hubtest.File{{Path: "first", Content: []byte("first")}, {Path: "second", Content: []byte("second")}}
	server.Commit("model/org/old", "main", files...)
	useHub(t, server.URL)
	m := harness.MountSource(t, "hf://org/old", "--follow=off")
	m.Shows(t, "first", []byte("first"))
	server.Delete("model/org/old", "")
	server.Commit("model/org/new", "main", files...)
	server.Lock()
	server.Renamed = map[string]string{"model/org/old": "model/org/new"}
	server.Unlock()
	m.Shows(t, "first", []byte("first"))
	again := harness.MountSource(t, "hf://org/old", "--follow=off")
	again.Shows(t, "second", []byte("second"))
	again.Quiet("cache_shared")
}

// A branch that is forced to another commit is followed. Its earlier commit is still readable.
func TestHubForcePushed(t *testing.T) {
	harness.NeedFuse(t)
	server := hubtest.New(t)
	first := server.Commit("model/org/m", "main", hubtest.File{Path: "a", Content: []byte("1")})
	server.Commit("model/org/m", "main", hubtest.File{Path: "b", Content: []byte("2")})
	useHub(t, server.URL)
	m := harness.MountSource(t, "hf://org/m", "--follow=100ms")
	m.Shows(t, "b", []byte("2"))
	server.Reset("model/org/m", "main", first)
	harness.WaitUntil(t, "the older commit is shown", func() bool {
		b, err := os.ReadFile(m.Path("a"))
		return err == nil && string(b) == "1"
	})
	if _, err := os.Stat(m.Path("b")); !os.IsNotExist(err) {
		t.Errorf("b: %v", err)
	}
	m.Shows(t, ".versions/0/b", []byte("2"))
	m.Quiet()
}

// S01: names that Linux cannot have are left out, with one event. All others are shown.
func TestS01_HubNames(t *testing.T) {
	harness.NeedFuse(t)
	server := hubtest.New(t)
	var files []hubtest.File
	for _, path := range []string{"../up", "a/../b", "nul\x00", strings.Repeat("n", 256), "new\nline", "sp ace", "twice", "twice"} {
		files = append(files, hubtest.File{Path: path, Content: []byte("x")})
	}
	server.Commit("model/org/m", "main", files...)
	useHub(t, server.URL)
	m := harness.MountSource(t, "hf://org/m", "--follow=off")
	for _, name := range []string{"new\nline", "sp ace", "twice"} {
		m.Shows(t, name, []byte("x"))
	}
	if n := len(m.Log.After(harness.Event("name_rejected"))); n != 1 {
		t.Errorf("%d events name_rejected", n)
	}
	list, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "n") && e.Name() != "new\nline" || e.Name() == ".." {
			t.Errorf("%q is shown", e.Name())
		}
	}
	_, err = os.Stat(m.Path(strings.Repeat("n", 256)))
	if err == nil {
		t.Error("a name of 256 bytes exists")
	}
	m.Quiet("name_rejected")
}

// O24: a listing that repeats a page token ends a command and a mount with one sentence.
func TestO24_HubRepeatedPage(t *testing.T) {
	server := hubtest.New(t)
	server.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
	server.Lock()
	server.PageSize, server.Repeat = 1, true
	server.Unlock()
	useHub(t, server.URL)
	dir := t.TempDir()
	for _, args := range [][]string{{"ls", "hf://org/m"}, {"mount", "--foreground", "hf://org/m", dir}} {
		cmd := exec.Command(harness.Program(t), args...)
		cmd.Env = harness.Environment()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		_, err := cmd.Output()
		if said := harness.StderrOf(err); cmd.ProcessState.ExitCode() != 6 || !strings.Contains(said, "the server returns page after page without an end") {
			t.Errorf("%s: exit status %d, %s", args[0], cmd.ProcessState.ExitCode(), said)
		}
	}
}
