package ui

import (
	"strings"
	"testing"
)

func TestAnyOf(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "a", "a b": "a or b", "a b c": "a, b or c"} {
		if got := AnyOf(strings.Fields(in)); got != want {
			t.Errorf("AnyOf(%s) = %q", in, got)
		}
	}
}
