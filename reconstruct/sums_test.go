package reconstruct

import (
	"crypto/sha256"
	"testing"
)

// Bytes of a plain file, which may be damaged, make no SHA-256 known but the right one. A wrong one of a
// whole read is an error, and one of an entry is compared with the chunks.
func TestPlainFileProvesNoWrongSHA256(t *testing.T) {
	s, f := large(t, largeChunks)
	right, wrong, dir := sha256.Sum256(f.Bytes()), [32]byte{2}, t.TempDir()
	m := mountPlan(t, s, dir, Options{Materialize: MaterializeAlways})
	m.ProveSHA256(f.Info.File, [32]byte{1}) // in memory, so none is stored
	m.sound(t, f)
	m.materializer.running.Wait()
	m.close(t)

	for _, isProven := range []bool{false, true} {
		m = mountPlan(t, s, dir, Options{})
		h := m.handle(t, f.ID())
		if isProven {
			if err := h.File().Prove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.ReadAt(t.Context(), make([]byte, 1), 0); err != nil || !h.f.readBacking.Load() {
			t.Fatalf("the plain file is not read: %v", err)
		}
		if err := h.CompareSHA256(wrong, right); !isSumError(err) {
			t.Errorf("proven %v: the wrong SHA-256 of a whole read: %v", isProven, err)
		}
		if sum, ok := m.SHA256(f.Info.File); ok {
			t.Errorf("proven %v: the SHA-256 of a plain file is known: %x", isProven, sum)
		}
		m.close(t)
	}
	m = mountPlan(t, s, dir, Options{Strict: true})
	h := m.handle(t, f.ID())
	if err := h.CheckSHA256(t.Context(), wrong); !isSumError(err) {
		t.Errorf("a wrong SHA-256: %v", err)
	}
	if err := h.CheckSHA256(t.Context(), right); err != nil {
		t.Errorf("the right SHA-256: %v", err)
	}
}
