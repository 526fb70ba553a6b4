package writer

import (
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A symbol whose first version would be hidden by another in a mount, or hide another, is
// refused. Symbols without a live version do not count.
func TestCheckNested(t *testing.T) {
	d := sitDown(t, origintest.Memory())
	for _, symbol := range []string{"me", "you/a", "you/b", "they/a/b", "me-too", "gone", "was/gone"} {
		d.must(d.replace(symbol, "f=1"))
	}
	for _, symbol := range []string{"gone", "was/gone"} {
		if err := d.Delete(t.Context(), symbol, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ symbol, hidden, by string }{
		{"me/proj", "me/proj", "me"},
		{"me/a/b", "me/a/b", "me"},
		{"you", "you/a", "you"},
		{"they/a", "they/a/b", "they/a"},
		{"they", "they/a/b", "they"},
		{"me", "", ""}, // it is live
		{"me-too/a", "me-too/a", "me-too"},
		{"m", "", ""},
		{"yo/a", "", ""},
		{"gone/a", "", ""},
		{"was", "", ""},
	} {
		_, err := d.Begin(t.Context(), tt.symbol, PublishOptions{})
		var nested *catalog.NestedError
		switch {
		case tt.hidden == "" && err != nil:
			t.Errorf("%s: %v", tt.symbol, err)
		case tt.hidden != "" && (!errors.As(err, &nested) || *nested != catalog.NestedError{Hidden: tt.hidden, By: tt.by}):
			t.Errorf("%s: %v, want %s hidden by %s", tt.symbol, err, tt.hidden, tt.by)
		}
	}
}
