package codectest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Golden compares got with a file. GOLDEN=update rewrites the file instead.
func Golden(t testing.TB, file string, got []byte) {
	t.Helper()
	if os.Getenv("GOLDEN") == "update" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s\nif the new one is right: make golden", file, got)
	}
}

// Vectors returns the folder with vectors of other implementations, which
// XETFS_VECTORS names. Without it the test is skipped.
func Vectors(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("XETFS_VECTORS")
	if dir == "" {
		t.Skip("XETFS_VECTORS is not set")
	}
	return dir
}

// SpecVectors returns the path of the known answers that belong to the specification. The file is
// beside the folder of Vectors.
func SpecVectors(t testing.TB) string {
	t.Helper()
	return filepath.Join(Vectors(t), "..", "spec", "vectors.json")
}

// Read returns the content of a file.
func Read(t testing.TB, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ReadJSON reads a JSON file into v.
func ReadJSON(t testing.TB, v any, elem ...string) {
	t.Helper()
	if err := json.Unmarshal(Read(t, elem...), v); err != nil {
		t.Fatalf("%s: %v", filepath.Join(elem...), err)
	}
}

// Bytes returns n bytes that look random and are the same for the same seed. They are the
// little-endian words of splitmix64, as in the vectors of the specification.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, SplitMix64(&seed))
	}
	return b[:n]
}

// SplitMix64 returns the next word of the generator and moves its state on.
func SplitMix64(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
