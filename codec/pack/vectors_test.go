package pack

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// A manifest describes what the reference wrote.
type manifest struct {
	dir string

	Originals map[string]struct {
		Size   int
		SHA256 string
		Source source
	}
	Sessions []manifestSession
	Files    map[name]struct {
		Reconstructions []struct {
			Shard string
			Terms []manifestTerm
		}
	}
	Xorbs []manifestXorb
}

type manifestXorb struct {
	Path, Kind string
	Hash       name
	Body       string `json:"uploaded_sha256"` // SHA-256 of what was uploaded
}

type manifestFile struct {
	Name   string
	Hash   name
	SHA256 *string `json:"reported_sha256"`
}

type manifestSession struct {
	Name   string
	Policy string `json:"sha256_policy"`
	Files  []manifestFile
	Xorbs  []name
}

type manifestTerm struct {
	Xorb         name
	Start, End   int
	Size         int  `json:"unpacked_bytes"`
	Verification name `json:"range_hash"`
}

// A source is the recipe of an original.
type source struct {
	Kind, File, Seed, Hex string
	Byte                  byte
	Size                  int
	Xorb                  name
	Parts                 []struct {
		Of             string
		Offset, Length int
		Text           string
		Fill           byte
		AES            string `json:"aes256ctr"`
		Size           int
	}
}

func coreManifest(t *testing.T) *manifest {
	m := &manifest{dir: filepath.Join(codectest.Vectors(t), "core")}
	codectest.ReadJSON(t, m, m.dir, "manifest.json")
	return m
}

// original makes an original by its recipe.
func (m *manifest) original(t *testing.T, path string) []byte {
	t.Helper()
	o := m.Originals[path]
	data := m.cook(t, o.Source)
	if sum := sha256.Sum256(data); len(data) != o.Size || hex.EncodeToString(sum[:]) != o.SHA256 {
		t.Fatalf("%s: the recipe makes something else", path)
	}
	return data
}

func (m *manifest) cook(t *testing.T, s source) []byte {
	switch s.Kind {
	case "stored":
		return codectest.Read(t, m.dir, s.File)
	case "fill":
		return bytes.Repeat([]byte{s.Byte}, s.Size)
	case "aes256ctr":
		return keystream(s.Seed, s.Size)
	case "bytes":
		b, err := hex.DecodeString(s.Hex)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case "xorb":
		return slices.Concat(m.xorb(t, s.Xorb).chunks...)
	case "concat":
		return m.concat(t, s)
	}
	t.Fatalf("recipe %q is not known", s.Kind)
	return nil
}

func (m *manifest) concat(t *testing.T, s source) (data []byte) {
	for _, p := range s.Parts {
		switch {
		case p.Of != "":
			from := m.original(t, p.Of)
			start := min(p.Offset, len(from))
			data = append(data, from[start:min(start+max(p.Length, 0), len(from))]...)
		case p.Text != "":
			data = append(data, p.Text...)
		case p.AES != "":
			data = append(data, keystream(p.AES, p.Size)...)
		default:
			data = append(data, bytes.Repeat([]byte{p.Fill}, p.Size)...)
		}
	}
	return data
}

func keystream(seed string, size int) []byte {
	key := sha256.Sum256([]byte(seed))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	out := make([]byte, size)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(out, out)
	return out
}

// xorb unpacks a stored xorb.
func (m *manifest) xorb(t *testing.T, n name) *decodedXorb {
	t.Helper()
	x, err := decodeXorb(codectest.Read(t, m.dir, m.stored(n).Path))
	if err != nil || x.name != n {
		t.Fatalf("xorb %s: %v", n, err)
	}
	return x
}

func (m *manifest) stored(n name) manifestXorb {
	i := slices.IndexFunc(m.Xorbs, func(x manifestXorb) bool {
		return x.Hash == n && (x.Kind == "stored" || x.Kind == "sliced")
	})
	return m.Xorbs[i]
}

// terms returns how a session described a file.
func (m *manifest) terms(session string, file name) []manifestTerm {
	for _, r := range m.Files[file].Reconstructions {
		if match, _ := filepath.Match("shards/stored/"+session+"--*", r.Shard); match {
			return r.Terms
		}
	}
	return nil
}

// The reference uploads files concurrently, so their order is not that of the manifest. The
// locations of their chunks show it.
func (m *manifest) order(t *testing.T, s *manifestSession) {
	if len(s.Files) < 50 {
		return
	}
	// A xorb was cut when the next file did not fit; so the one that is not full is last.
	slices.SortStableFunc(s.Xorbs, func(a, b name) int { return cmp.Compare(len(m.xorb(t, b).chunks), len(m.xorb(t, a).chunks)) })
	at := func(file name) int {
		first := m.terms(s.Name, file)[0]
		return slices.Index(s.Xorbs, first.Xorb)<<16 + first.Start
	}
	slices.SortStableFunc(s.Files, func(a, b manifestFile) int { return cmp.Compare(at(a.Hash), at(b.Hash)) })
}

// before returns what the client of a session knew when it began.
func (m *manifest) before(t *testing.T, session string) ChunkIndex {
	var shards []string
	switch session {
	case "v2", "v3": // by the global query, or from its cache
		shards = []string{"v1"}
	default:
		return nil
	}
	mem := newMemory()
	for _, s := range shards {
		files, err := filepath.Glob(filepath.Join(m.dir, "shards", "stored", s+"--*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b := codectest.Read(t, files[0])
		mem.shards[keyed(dataKey, b)] = b
	}
	return known{newLedger(mem)}
}

// sessionLimits are what the reference was configured to in some sessions.
var sessionLimits = map[string]Options{
	"multi-xorb": {maxXorbSize: 1 << 20},
	"many-xorbs": {maxXorbChunks: 16},
}

// The sessions of the reference, packed again, give the same chunks, files and terms, and
// the same xorbs, byte by byte.
func TestReferenceSessions(t *testing.T) {
	m := coreManifest(t)
	for _, s := range m.Sessions {
		t.Run(s.Name, func(t *testing.T) {
			m.order(t, &s)
			o := sessionLimits[s.Name]
			o.NoSHA = s.Policy == "skip"
			o.Known = m.before(t, s.Name)
			sink := newMemory()
			w := newSession(t, sink, o)
			for _, f := range s.Files {
				w.add(m.original(t, f.Name))
			}
			if err := w.w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.compare(t, &s, w)
		})
	}
}

func (m *manifest) compare(t *testing.T, s *manifestSession, w *session) {
	if got := slices.Sorted(maps.Keys(w.sink.xorbs)); !slices.Equal(got, slices.Sorted(slices.Values(s.Xorbs))) {
		t.Errorf("xorbs %v, want %v", got, s.Xorbs)
	}
	for _, n := range s.Xorbs {
		m.compareXorb(t, n, w.sink.xorbs[n])
	}
	c := &content{shards: map[name]*decodedShard{}}
	for n, b := range w.sink.shards {
		d, err := decodeShard(b)
		if err != nil {
			t.Fatal(err)
		}
		c.shards[n] = d
	}
	for i, f := range s.Files {
		block, err := c.find(w.done[i].ID)
		if err != nil || block.name != f.Hash {
			t.Errorf("%s: hash %s, want %s (%v)", f.Name, block.name, f.Hash, err)
			continue
		}
		if want := m.terms(s.Name, f.Hash); !slices.Equal(termsOf(block), want) {
			t.Errorf("%s: terms\n%v, want\n%v", f.Name, termsOf(block), want)
		}
		if f.SHA256 == nil != (block.sha256 == nil) || f.SHA256 != nil && *f.SHA256 != hex.EncodeToString(block.sha256) {
			t.Errorf("%s: SHA-256 %x", f.Name, block.sha256)
		}
	}
}

func termsOf(f decodedFile) (terms []manifestTerm) {
	for i, t := range f.terms {
		terms = append(terms, manifestTerm{t.xorb, t.start, t.end, t.size, f.verify[i]})
	}
	return terms
}

func (m *manifest) compareXorb(t *testing.T, n name, body []byte) {
	got, err := decodeXorb(body)
	if err != nil {
		t.Errorf("xorb %s: %v", n, err)
		return
	}
	want := m.xorb(t, n)
	if got.name != n || !slices.Equal(got.sized, want.sized) {
		t.Errorf("xorb %s: other chunks", n)
	}
	if !bytes.Equal(got.schemes, want.schemes) {
		t.Errorf("xorb %s: schemes %v, want %v", n, got.schemes, want.schemes)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != m.stored(n).Body {
		t.Errorf("xorb %s: other bytes", n)
	}
}

// A jsManifest describes what the JavaScript client wrote.
type jsManifest struct {
	Files []struct {
		Path     string
		Hash     name `json:"xet_hash"`
		Size     int
		Conforms bool `json:"chunking_conforms"`
		Terms    []struct {
			Xorb         name
			Start, End   int
			Size         int `json:"unpacked_length"`
			Verification name
		}
	}
	Xorbs []struct {
		Hash name
		File *string
	}
}

// The files of the JavaScript client, where its chunks conform, have the same chunks and
// hashes when they are packed again. The originals are put together from the terms.
func TestJavaScriptFiles(t *testing.T) {
	dir := filepath.Join(codectest.Vectors(t), "js")
	var m jsManifest
	codectest.ReadJSON(t, &m, dir, "manifest.json")
	xorbs := map[name]*decodedXorb{}
	for _, x := range m.Xorbs {
		if x.File == nil {
			continue
		}
		var err error
		if xorbs[x.Hash], err = decodeXorb(codectest.Read(t, dir, *x.File)); err != nil {
			t.Fatal(err)
		}
	}
	s := newSession(t, newMemory(), Options{NoSHA: true}) // the file hash replaces it
	var packed []int
	for i, f := range m.Files {
		data := make([]byte, 0, f.Size)
		for _, term := range f.Terms {
			if x := xorbs[term.Xorb]; x != nil {
				for _, chunk := range x.chunks[term.Start:term.End] {
					data = append(data, chunk...)
				}
			}
		}
		if len(data) != f.Size || !f.Conforms {
			continue // its xorb is not stored
		}
		s.add(data)
		packed = append(packed, i)
	}
	c := s.close()
	if len(packed) < 1300 {
		t.Errorf("only %d of %d files could be had", len(packed), len(m.Files))
	}
	for k, i := range packed {
		f := m.Files[i]
		block, err := c.find(s.done[k].ID)
		if err != nil || block.name != f.Hash {
			t.Errorf("%s: hash %s, want %s (%v)", f.Path, block.name, f.Hash, err)
			continue
		}
		chunks := c.chunks(block)
		for _, term := range f.Terms {
			if want := xorbs[term.Xorb].sized[term.Start:term.End]; !slices.Equal(chunks[:len(want)], want) || termOf(want) != term.Verification {
				t.Errorf("%s: other chunks", f.Path)
			}
			chunks = chunks[term.End-term.Start:]
		}
	}
}

// chunks returns the chunks of a file.
func (c *content) chunks(f decodedFile) (chunks []sized) {
	for _, t := range f.terms {
		chunks = append(chunks, c.xorbs[t.xorb].sized[t.start:t.end]...)
	}
	return chunks
}

// The known answers of the specification about whole files and the shards of them.
func TestSpecification(t *testing.T) {
	var spec struct {
		Vectors []struct {
			Name, Kind string
			Input      struct{ UTF8, Generator, File string }
			Expected   json.RawMessage
		}
	}
	codectest.ReadJSON(t, &spec, codectest.SpecVectors(t))
	seen := 0
	for _, v := range spec.Vectors {
		data, ok := generators[v.Input.Generator+v.Input.File]
		if v.Kind != "file" || !ok {
			continue // or no list has the file
		}
		seen++
		t.Run(v.Name, func(t *testing.T) {
			s := newSession(t, newMemory(), Options{})
			s.add(append(data(), v.Input.UTF8...))
			c := s.close()
			block, err := c.find(s.done[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			compareFile(t, c, block, v.Expected)
		})
	}
	if seen != 5 {
		t.Errorf("%d files are known, want 5", seen)
	}
}

// generators make the files that the specification describes in words.
var generators = map[string]func() []byte{
	"": func() []byte { return nil },
	"byte i = (i*7+13) mod 256, 200000 bytes":   func() []byte { return linear(200_000, 7, 13) },
	"byte i = (i*13+37) mod 256, 1000000 bytes": func() []byte { return linear(1_000_000, 13, 37) },
	"splitmix64 seed 0, 1000000 bytes":          func() []byte { return codectest.Bytes(0, 1_000_000) },
}

func linear(n, factor, offset int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*factor + offset)
	}
	return b
}

// compareFile compares a file with what the specification says of it, where it says
// something. All these files are one term of one xorb, or several of one chunk.
func compareFile(t *testing.T, c *content, block decodedFile, expected []byte) {
	var want struct {
		Boundaries []int
		Chunks     []name `json:"chunk_hashes"`
		File       name   `json:"file_hash"`
		Xorb       name   `json:"xorb_hash"`
		Range      name   `json:"range_hash"`
	}
	if err := json.Unmarshal(expected, &want); err != nil {
		t.Fatal(err)
	}
	var (
		ends   []int
		hashes []name
		end    int
	)
	chunks := c.chunks(block)
	for _, chunk := range chunks {
		end += chunk.size
		ends, hashes = append(ends, end), append(hashes, chunk.name)
	}
	if want.Boundaries != nil && !slices.Equal(ends, want.Boundaries) {
		t.Errorf("chunks end at %v, want %v", ends, want.Boundaries)
	}
	if want.Chunks != nil && !slices.Equal(hashes, want.Chunks) {
		t.Errorf("chunks %v, want %v", hashes, want.Chunks)
	}
	if block.name != want.File {
		t.Errorf("file hash %s, want %s", block.name, want.File)
	}
	// A repeated chunk is in the xorb once, and the hash covers all.
	if want.Xorb != "" && rootOf(chunks) != want.Xorb {
		t.Errorf("xorb hash %s, want %s", rootOf(chunks), want.Xorb)
	}
	if want.Range != "" && (len(block.verify) != 1 || block.verify[0] != want.Range) {
		t.Errorf("verification hashes %v, want %s", block.verify, want.Range)
	}
}
