package fs

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/fs/catalog"
)

// The number of messages is the cost of a program: about 10 µs each. These tests keep removed
// messages from returning.
func TestMessages(t *testing.T) {
	const n = 3000
	tests := []struct {
		command   string
		most      map[string]int // of each message; those not named: 10
		stateless bool
	}{
		{"ls -f big", nil, false},
		{"find big -type f -name x", nil, false},
		{"ls -l big", map[string]int{"LOOKUP": n / 64, "READDIRPLUS": 40}, false},
		{"cat big/000001 big/000002 big/000003", nil, false},
		{"tar cf /dev/null big", map[string]int{"LOOKUP": n / 64, "READDIRPLUS": 40}, false},
		{"find big -type f -exec cat {} +", map[string]int{"LOOKUP": n / 64, "READDIRPLUS": 40}, true},
		{"du big", map[string]int{"LOOKUP": n / 64, "READDIRPLUS": 40}, false},
	}
	e := newFakeEngine()
	tree := bigTree(e, n)
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			var seen map[string]int
			for range 10 { // the kernel may drop its caches in between; it forgets the nodes then
				seen = countMessages(t, tree, e, tt.command, tt.stateless)
				if seen["FORGET"]+seen["BATCH_FORGET"] == 0 {
					break
				}
			}
			for message, count := range seen {
				most, ok := tt.most[message]
				if !ok {
					most = 10
				}
				if count > most {
					t.Errorf("%d times %s, want at most %d", count, message, most)
				}
			}
		})
	}
}

// countMessages returns how many messages of each kind a command sends to a new mount.
func countMessages(t *testing.T, tree catalog.Catalog, e *fakeEngine, command string, stateless bool) map[string]int {
	t.Helper()
	log := newSyncBuffer()
	m := mountFake(t, tree, e, Options{Debug: true, Stateless: stateless, Logger: slog.New(slog.NewTextHandler(log, nil))})
	args := strings.Fields(command)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %.1000s", err, out)
	}
	if err := m.s.Shutdown(0); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, line := range log.lines("rx ") {
		seen[strings.Fields(line[strings.Index(line, "rx "):])[2]]++
	}
	return seen
}
