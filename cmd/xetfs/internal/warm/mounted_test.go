package warm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A file that the mount does not store ends the run. It is no damage.
func TestMounted_NotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(path, cachedName, []byte("0"), 0); err != nil {
		t.Skipf("extended attributes: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := Mounted{
			Paths: []string{path}, Bar: ui.NewProgress(t.Output(), "", "", ui.ProgressNone), Check: func() error { return nil },
			Failed: func(path string, err error) { t.Errorf("%s failed: %v", path, err) },
		}
		_, result, err := m.Do(t.Context())
		if !errors.Is(err, errNotKept) || !strings.HasPrefix(err.Error(), path+": ") || result.Failed != 0 {
			t.Errorf("Do = %+v, %v", result, err)
		}
	})
}
