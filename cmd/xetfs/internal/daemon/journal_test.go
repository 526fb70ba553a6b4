package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A line for the journal has a priority, and neither time nor level.
func TestJournalHandler(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewJournalHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})).With("a", 1)
	log.Debug("one")
	log.Info("two lines\nhere")
	log.Warn("three")
	log.WithGroup("g").Error("four", "level", "x")
	want := "<7>msg=one a=1\n<6>msg=\"two lines\\nhere\" a=1\n<4>msg=three a=1\n<3>msg=four a=1 g.level=x\n"
	if b.String() != want {
		t.Errorf("lines are\n%swant\n%s", b.String(), want)
	}
}

func TestIsJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	for _, tt := range []struct {
		stream string
		want   bool
	}{{own, true}, {"", false}, {own + "1", false}, {"x", false}} {
		if got := IsJournal(f, tt.stream); got != tt.want {
			t.Errorf("IsJournal(%q) = %v", tt.stream, got)
		}
	}
	if IsJournal(new(bytes.Buffer), own) {
		t.Error("a buffer is a journal")
	}
}
