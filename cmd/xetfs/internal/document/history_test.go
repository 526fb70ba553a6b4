package document

import (
	"testing"

	"github.com/xetfs/xetfs/codec/names"
)

func TestIntervalText(t *testing.T) {
	list := []names.Interval{{From: 3, To: 4}, {From: 5, To: 8}, {From: 10, To: 12}}
	if got, want := intervalText(list), "3, 5-7, 10, 11"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}
