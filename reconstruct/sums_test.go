package reconstruct

import (
	"crypto/sha256"
	"testing"

	"github.com/xetfs/xetfs/codec"
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
		if err := h.CompareReadSHA256(wrong, right); !isSumError(err) {
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

// The lost SHA-256 of a plain file becomes known in the background. It is that of the plain file if this is
// the wanted one, or else that of the chunks.
func TestPlainFileLearnsSHA256(t *testing.T) {
	for name, isListed := range map[string]bool{"right listing": true, "false listing": false} {
		t.Run(name, func(t *testing.T) {
			s, f := large(t, largeChunks)
			right, dir := sha256.Sum256(f.Bytes()), t.TempDir()
			m := mountPlan(t, s, dir, Options{Materialize: MaterializeAlways})
			m.ProveSHA256(f.Info.File, [32]byte{1}) // in memory, so none is stored
			m.sound(t, f)
			m.materializer.running.Wait()
			m.close(t)

			contradictions := 0
			m = mountPlan(t, s, dir, Options{OnContradiction: func(codec.FileID) { contradictions++ }})
			want := right
			if !isListed {
				want[0] ^= 1
			}
			h := m.handle(t, f.ID())
			h.LearnSHA256(want)
			m.materializer.running.Wait()
			if sum, ok := m.SHA256(f.Info.File); !ok || sum != right {
				t.Errorf("the SHA-256 is %x, %v", sum, ok)
			}
			if (contradictions == 0) != isListed {
				t.Errorf("%d contradictions", contradictions)
			}
			if calls, _ := m.plan.Requests(); isListed && calls > 0 {
				t.Errorf("%d requests", calls)
			}
			h.LearnSHA256(want)
			if m.materializer.isRunning {
				t.Error("a known SHA-256 is learned again")
			}
		})
	}
}

// A plain file that was evicted before its SHA-256 is learned is not fetched for that.
func TestEvictedFileLearnsNoSHA256(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{})
	file := m.handle(t, f.ID()).File()
	file.wantSum.Store(&[32]byte{1})
	m.materializer.enqueue(file)
	m.materializer.running.Wait()
	if calls, _ := m.plan.Requests(); calls > 0 || m.disk.HasFile(f.Info.File) {
		t.Errorf("%d requests, stored: %v", calls, m.disk.HasFile(f.Info.File))
	}
}

// Two paths have one Xet hash, and the SHA-256 of the second is false. It is an error also if the file is stored.
func TestMaterializeComparesStoredFile(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{})
	right := sha256.Sum256(f.Bytes())
	for _, sum := range [][32]byte{right, {1}, right} {
		err := m.Materialize(t.Context(), f.ID(), &sum, func(int64) {})
		if isSumError(err) != (sum != right) || err != nil && sum == right {
			t.Errorf("SHA-256 %x: %v", sum, err)
		}
	}
}
