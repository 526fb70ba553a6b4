package stack

import (
	"log/slog"
	"testing"
)

func TestThreadsFor(t *testing.T) {
	for cores, want := range map[int]int{1: 2, 2: 4, 8: 16, 12: 16, 64: 64} {
		if got := threadsFor(cores); got != want {
			t.Errorf("threadsFor(%d) = %d, want %d", cores, got, want)
		}
	}
}

func TestFitCgroup(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name                string
		bytes, cgroup, want int64
	}{
		{"enough room", 512 * mib, 4096 * mib, 512 * mib},
		{"just enough", 112 * mib, 256 * mib, 112 * mib},
		{"K08: a cgroup of 256 MiB", 512 * mib, 256 * mib, 112 * mib},
		{"too small for anything", 512 * mib, 32 * mib, 16 * mib},
		{"less was asked for than the least", 1 * mib, 32 * mib, 1 * mib},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fitCgroup(tt.bytes, tt.cgroup, slog.New(slog.DiscardHandler)); got != tt.want {
				t.Errorf("fitCgroup = %d, want %d", got, tt.want)
			}
		})
	}
}
