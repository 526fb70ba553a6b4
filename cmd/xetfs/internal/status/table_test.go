package status

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/fs"
)

// Pushed files are part of the bytes read, and of their rate.
func TestTablePushed(t *testing.T) {
	before := Mount{Dir: "/m", State: StateOK}
	before.Stats.Process.Now = time.Unix(100, 0)
	now := before
	now.Stats.Process.Now = time.Unix(101, 0)
	now.Stats.Files.Bytes, now.Stats.Files.PushedBytes = 1<<20, 3<<20
	var table bytes.Buffer
	if err := WriteTable(&table, []Mount{now}, []Mount{before}); err != nil {
		t.Fatal(err)
	}
	if text := table.String(); !strings.Contains(text, " 4.00 MiB ") || !strings.Contains(text, " 4.00 MiB/s ") {
		t.Errorf("a mount that sent 4 MiB in a second is\n%s", text)
	}
}

// The state of a mount that cannot follow its source is the reason.
func TestTableFollowError(t *testing.T) {
	m := Mount{Dir: "/m", State: StateOK}
	m.Stats.FollowError = "follow_failed: the server says 401"
	if cells := m.cells(nil); cells[len(cells)-1] != m.Stats.FollowError {
		t.Errorf("cells %q, want the state %q", cells, m.Stats.FollowError)
	}
}

// An absent value is null: scripts look for all keys.
func TestWriteJSON_Absent(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, []Mount{{Dir: "/a", State: StateSilent}, {Dir: "/b", State: StateOK, Raw: []byte("{}")}, {Dir: "/c", State: StatePart, Error: "x"}}); err != nil {
		t.Fatal(err)
	}
	want := `{"mounts":[` +
		`{"mountpoint":"/a","mountpoint_bytes":null,"source":"","state":"silent","stats":null,"error":null},` +
		`{"mountpoint":"/b","mountpoint_bytes":null,"source":"","state":"ok","stats":{},"error":null},` +
		`{"mountpoint":"/c","mountpoint_bytes":null,"source":"","state":"part","stats":null,"error":"x"}]}` + "\n"
	if got := b.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A mount has figures of a limited number of symbols.
func TestShownText(t *testing.T) {
	for n, want := range map[int]string{0: "0 symbols in use", 2: "2 symbols in use", fs.MaxShown: "32 or more symbols in use"} {
		s := &Stats{}
		s.Shown = make([]fs.Shown, n)
		if got := shownText(s); got != want {
			t.Errorf("%d symbols are %q, want %q", n, got, want)
		}
	}
}
