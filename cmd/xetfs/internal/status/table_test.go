package status

import (
	"bytes"
	"strings"
	"testing"
	"time"
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
