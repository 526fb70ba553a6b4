package ingest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/codec/pack"
)

// An Ingest needs no end if All is not called.
func TestNewStartsNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	i, err := New(Options{Folders: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
	if s := i.Stats(); s != (pack.Stats{}) {
		t.Errorf("statistics %+v", s)
	}
}
