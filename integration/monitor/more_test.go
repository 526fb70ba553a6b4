package monitor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// dropFromPages drops an open file from the page cache, so that the next read reaches the mount.
func dropFromPages(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// secondsBetween returns the time between two documents.
func secondsBetween(t *testing.T, first, second figures) float64 {
	t.Helper()
	var at [2]time.Time
	for i, f := range []figures{first, second} {
		text, _ := f.at("process.now").(string)
		var err error
		if at[i], err = time.Parse(time.RFC3339, text); err != nil {
			t.Fatal(err)
		}
	}
	return at[1].Sub(at[0]).Seconds()
}

// mountpoint returns a folder for a mount. With -screenshot it has a short name.
func mountpoint(t *testing.T) string {
	if *screenshot != "" {
		return "/mnt/xetfs" // of a mount namespace of this test
	}
	return filepath.Join(t.TempDir(), "mnt")
}

// takeScreenshot takes a picture of the page. With -screenshot it waits until an expression is
// true, and stores the picture in the folder of the flag.
func (b *tab) takeScreenshot(name, until string) {
	b.t.Helper()
	b.resize(1200, 1180, "light")
	if *screenshot != "" {
		harness.WaitUntil(b.t, until, func() bool { return b.text("String("+until+")") == "true" })
	}
	picture := run(b, chromedp.FullScreenshot(100))
	if len(picture) < 10_000 {
		b.t.Errorf("the picture has %d bytes", len(picture))
	}
	if *screenshot != "" {
		harness.WriteFile(b.t, filepath.Join(*screenshot, name), picture)
	}
}
