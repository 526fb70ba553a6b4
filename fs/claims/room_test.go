package claims

import "testing"

// A claim that has lost a read leaves its room to other claims.
func TestLostClaimLeavesRoom(t *testing.T) {
	var s Set
	const size, part = 4 * maxHeld, 1 << 20
	lost, _ := s.Acquire(Key{Ino: 1}, size)
	for off := int64(part); off < size; off += 2 * part {
		lost.Add(make([]byte, part), off)
	}
	other, _ := s.Acquire(Key{Ino: 2}, 2*part)
	other.Add(make([]byte, part), part)
	if _, complete := other.Add(make([]byte, part), 0); !complete {
		t.Errorf("a claim has no room, with %d bytes held", s.Held())
	}
	s.Release(lost)
	s.Release(other)
	if s.Held() != 0 {
		t.Errorf("%d bytes are left", s.Held())
	}
}
