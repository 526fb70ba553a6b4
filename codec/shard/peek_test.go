package shard

import "testing"

func TestIsShard(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want bool
	}{
		{"header", magic + "\x02", true},
		{"magic only", magic, true},
		{"one byte short", magic[:31], false},
		{"last byte wrong", magic[:31] + "x", false},
		{"nothing", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsShard([]byte(tt.in)); got != tt.want {
				t.Errorf("IsShard(%q) = %t, want %t", tt.in, got, tt.want)
			}
		})
	}
}
