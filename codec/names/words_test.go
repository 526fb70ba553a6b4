package names

import (
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

func TestInWords(t *testing.T) {
	xorb := codec.Hash{1}
	for _, tt := range []struct{ text, want string }{
		{string(SettingsKey()) + ": no", "the settings of the catalog: no"},
		{fmt.Sprintf("s: %q: no", SettingsKey()), "s: the settings of the catalog: no"},
		{fmt.Sprintf("%q: no", RefKey("org/model")), "reference org/model: no"},
		{fmt.Sprintf("%q: no", SnapshotKey("a b")), "snapshot a b: no"},
		{fmt.Sprintf("xorb %s: %q: no", xorb, XorbKey(xorb)), fmt.Sprintf("xorb %s: no", xorb)},
		{fmt.Sprintf("%s: %q: no", ShardKey(xorb), ShardKey(xorb)), fmt.Sprintf("shard %s: no", xorb)},
		{"a/tindex/81: cref/x", "a/tindex/81: cref/x"},
		{`"tdata/shard": no`, `"tdata/shard": no`},
	} {
		if got := InWords(tt.text); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.text, got, tt.want)
		}
	}
}
