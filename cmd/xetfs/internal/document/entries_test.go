package document

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// A file time outside the years of RFC 3339 does not end a listing in JSON.
func TestEntryTimes(t *testing.T) {
	tests := []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 3, 1, 12, 0, 0, 500, time.FixedZone("", 3600)), "2026-03-01T11:00:00.0000005Z"},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), "9999-12-31T23:59:59Z"},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)), "+010000-01-01T00:59:59Z"},
		{time.Date(10000, 1, 1, 0, 0, 0, 1, time.UTC), "+010000-01-01T00:00:00.000000001Z"},
		{time.Date(-1, 2, 3, 4, 5, 6, 0, time.UTC), "-000001-02-03T04:05:06Z"},
		{time.Unix(1<<62-1, 0), "+146138514283-06-19T07:45:03Z"},
	}
	for _, tt := range tests {
		e := page.Entry{Path: "a", Type: page.Symlink, ModTime: tt.at}
		docs := map[string]any{"ls": inspect.NewEntryDoc(e), "diff": newDiffEntryDoc(&e)}
		for command, doc := range docs {
			var b bytes.Buffer
			d := ui.NewDocument(&b)
			d.Field("entry", doc)
			if err := d.Close(); err != nil {
				t.Errorf("%s: %v: %v", command, tt.at, err)
				continue
			}
			var got struct{ Entry struct{ Modified string } }
			if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Entry.Modified != tt.want {
				t.Errorf("%s: %v is %q, %v, want %q", command, tt.at, got.Entry.Modified, err, tt.want)
			}
		}
	}
}

func TestModeText(t *testing.T) {
	tests := []struct {
		kind page.Type
		mode uint32
		want string
	}{
		{page.File, 0o644, "-rw-r--r--"},
		{page.File, 0, "----------"},
		{page.Dir, 0o755, "drwxr-xr-x"},
		{page.Dir, 0o1777, "drwxrwxrwt"},
		{page.Symlink, 0o777, "lrwxrwxrwx"},
		{page.File, 0o4755, "-rwsr-xr-x"},
		{page.File, 0o2644, "-rw-r-Sr--"},
		{page.File, 0o7000, "---S--S--T"},
	}
	for _, tt := range tests {
		if got := modeText(page.Entry{Type: tt.kind, Mode: tt.mode}); got != tt.want {
			t.Errorf("%v %04o is %s, want %s", tt.kind, tt.mode, got, tt.want)
		}
	}
}
