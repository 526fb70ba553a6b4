package names

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/page"
)

// signed puts the checksum behind a line, without the code that is tested.
func signed(text string) []byte {
	sum := blake3.Sum256([]byte(text))
	return []byte(text + "\n" + hex.EncodeToString(sum[:]) + "\n")
}

var (
	noon = time.Unix(1700000000, 5).UTC()
	txid = "00112233445566778899aabbccddeeff"
	row1 = Row{Number: 1, Time: noon, Root: bytes32(), Identity: identity(), Entries: 5, Bytes: 1 << 60}
)

func verKey(symbol string, version, seq uint64) Key {
	return Parsed{Kind: VersionKind, Symbol: symbol, Version: version, Seq: seq, Time: noon, Hash: bytes32()}.Key()
}

func someRef() *Ref {
	return &Ref{Symbol: "org/model", Seq: 2, Head: verKey("org/model", 1, 2), Latest: &row1}
}

func someVersion() *Version {
	return &Version{
		Symbol: "org/model", Seq: 3, Number: 4, Time: noon.Add(2), TxID: txid,
		Parent: verKey("org/model", 3, 2), Next: verKey("org/model", 0, 1),
		Rows:    []Row{{Number: 4, Time: noon.Add(2), Root: bytes32(), Identity: identity(), Entries: 1}, row1},
		Deleted: []Interval{{From: 0, To: 1}, {From: 2, To: 4, Seq: 2}},
		Writer:  "me", Message: "a <b> & \"c\"\n", Labels: map[string]string{"git_commit": "abc", "a": ""},
	}
}

// signingVersion signs version 1 and keeps the signature of version 4.
func signingVersion() *Version {
	v := someVersion()
	v.Kind, v.Signs, v.Seq = Sign, 1, 4
	v.Rows[0].Sig, v.Rows[1].Sig = "AAAA", "BBBBBA=="
	return v
}

func someSnapshot() *Snapshot {
	return &Snapshot{Name: "rel 1", Time: noon, Message: "first", Rows: map[string]Row{"org/model": row1, "a": row1}}
}

// repackedSnapshot was repacked twice.
func repackedSnapshot() *Snapshot {
	n := someSnapshot()
	delete(n.Rows, "org/model")
	n.Replaced = map[string]Row{"a": row1}
	n.Older = []OldTree{{Root: bytes32(), Replaced: noon}}
	return n
}

func someSweep() *Sweep {
	list := Parsed{Kind: SweepListKind, Hash: bytes32()}.Key()
	return &Sweep{ID: txid, Deleting: true, List: list, Kept: []Key{XorbKey(bytes32())}, Started: noon, Owner: "host 1", Lease: noon.Add(time.Hour)}
}

func someDocuments() map[string]Document {
	return map[string]Document{
		"vref": someRef(), "ver": someVersion(), "tref": someSnapshot(), "cref": DefaultSettings(txid, noon), "gc": someSweep(),
		"vref without versions": &Ref{Symbol: "m", Seq: 2, Head: verKey("m", 1, 2)},
		"first ver":             &Version{Symbol: "m", Time: noon, TxID: txid, Rows: []Row{{Time: noon, Root: bytes32(), Identity: identity()}}},
		"ver that deletes":      &Version{Symbol: "m", Kind: Delete, Seq: 1, Time: noon, TxID: txid, Parent: verKey("m", 0, 0), Deleted: []Interval{{0, 1, 1}}},
		"ver that signs":        signingVersion(),
		"gc announced":          &Sweep{ID: txid, List: Parsed{Kind: SweepListKind}.Key(), Started: noon},
		"repacked tref":         repackedSnapshot(),
		"empty tref":            &Snapshot{Name: "s", Time: noon, Rows: map[string]Row{}},
	}
}

func TestDocumentsAreInverses(t *testing.T) {
	for name, doc := range someDocuments() {
		t.Run(name, func(t *testing.T) {
			b, err := Encode(doc)
			if err != nil {
				t.Fatal(err)
			}
			got := fresh(doc)
			if err := Decode(b, got); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if diff := cmp.Diff(doc, got); diff != "" {
				t.Errorf("-put +got:\n%s", diff)
			}
		})
	}
}

func fresh(doc Document) Document {
	return reflect.New(reflect.TypeOf(doc).Elem()).Interface().(Document)
}

// The line of a document, letter by letter.
func TestEncode(t *testing.T) {
	head := string(verKey("org/model", 1, 2))
	row := `{"v":"1","ts":"1700000000000000005","t":"` + hexed + `","i":"` + named + `","n":"5","b":"1152921504606846976"}`
	tests := []struct {
		name string
		doc  Document
		want string
	}{
		{"vref", someRef(), `{"format":2,"symbol":"org/model","seq":"2","head":"` + head + `","latest":` + row + `}`},
		{"vref without versions", &Ref{Symbol: "org/model", Seq: 2, Head: Key(head)}, `{"format":2,"symbol":"org/model","seq":"2","head":"` + head + `","latest":null}`},
		{"ver", someVersion(), `{"format":2,"kind":"write","symbol":"org/model","seq":"3","version":"4","ts":"1700000000000000007","txid":"` + txid + `",` +
			`"parent":"` + string(verKey("org/model", 3, 2)) + `","rows":[{"v":"4","ts":"1700000000000000007","t":"` + hexed + `","i":"` + named + `","n":"1","b":"0"},` + row + `],` +
			`"next":"` + string(verKey("org/model", 0, 1)) + `","deleted":[["0","1","0"],["2","4","2"]],` +
			`"writer":"me","message":"a <b> & \"c\"\n","labels":{"a":"","git_commit":"abc"}}`},
		{"ver that signs", signingVersion(), `{"format":2,"kind":"sign","symbol":"org/model","seq":"4","version":"4","ts":"1700000000000000007","txid":"` + txid + `",` +
			`"parent":"` + string(verKey("org/model", 3, 2)) + `","rows":[{"v":"4","ts":"1700000000000000007","t":"` + hexed + `","i":"` + named + `","n":"1","b":"0","sig":"AAAA"},` +
			strings.TrimSuffix(row, "}") + `,"sig":"BBBBBA=="}],"next":"` + string(verKey("org/model", 0, 1)) + `","deleted":[["0","1","0"],["2","4","2"]],"signs":"1",` +
			`"writer":"me","message":"a <b> & \"c\"\n","labels":{"a":"","git_commit":"abc"}}`},
		{"first ver", &Version{Symbol: "m", Time: noon, TxID: txid, Rows: []Row{{Time: noon, Root: bytes32(), Identity: identity()}}},
			`{"format":2,"kind":"write","symbol":"m","seq":"0","version":"0","ts":"1700000000000000005","txid":"` + txid + `","parent":null,` +
				`"rows":[{"v":"0","ts":"1700000000000000005","t":"` + hexed + `","i":"` + named + `","n":"0","b":"0"}],"next":null,"deleted":[]}`},
		{"tref", someSnapshot(), `{"format":2,"snapshot":"rel 1","ts":"1700000000000000005","message":"first","rows":[{"symbol":"a","row":` + row + `},{"symbol":"org/model","row":` + row + `}]}`},
		{"repacked tref", repackedSnapshot(), `{"format":2,"snapshot":"rel 1","ts":"1700000000000000005","message":"first","rows":[{"symbol":"a","row":` + row + `}],` +
			`"replaced":[{"symbol":"a","row":` + row + `}],"older":[{"t":"` + hexed + `","ts":"1700000000000000005"}]}`},
		{"cref", DefaultSettings(txid, noon), `{"format":2,"id":"` + txid + `","created":"1700000000000000005","page":{"min":65536,"max":524288,"bits":10,"restart":16},"block":128,"window_s":3600,"grace_s":604800}`},
		{"gc", someSweep(), `{"format":2,"id":"` + txid + `","state":"deleting","list":"gcl/00/` + hexed + `","kept":["tdata/xorb/07/` + counting + `.xorb"],"started":"1700000000000000005","owner":"host 1","lease":"1700003600000000005"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Encode(tt.doc)
			if err != nil || string(got) != string(signed(tt.want)) {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, signed(tt.want))
			}
		})
	}
}

// F48: what JSON may not be, one row for each reason; and what is free.
func TestF48Decode(t *testing.T) {
	const good = `{"format":2,"symbol":"m","seq":"2","head":"HEAD","latest":{"v":"1","ts":"5","t":"` + hexed + `","i":"` + named + `","n":"5","b":"9"}}`
	head := string(verKey("m", 1, 2))
	change := func(old, now string) []byte {
		text := strings.Replace(good, "HEAD", head, 1)
		if !strings.Contains(text, old) {
			t.Fatalf("no %s", old)
		}
		return signed(strings.Replace(text, old, now, 1))
	}
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	tests := []struct {
		name   string
		in     []byte
		reason string // empty if it is good
	}{
		{"good", change("", ""), ""},
		{"spaces", change(`{"format":2,`, " {\t\"format\" : 2 ,\r "), ""},
		{"an unknown field", change(`"seq"`, `"new":{"a":[1.5e3,true,false,null,"\u00e9"]},"seq"`), ""},
		{"a field in other letters is unknown", change(`"seq"`, `"SEQ":"7","seq"`), ""},
		{"escapes", change(`"symbol":"m"`, `"symbol":"\u006d"`), ""},

		{"negative", change(`"seq":"2"`, `"seq":"-2"`), `"-2" is not a number in a string`},
		{"fraction", change(`"seq":"2"`, `"seq":"2.0"`), `"2.0" is not a number in a string`},
		{"exponent", change(`"seq":"2"`, `"seq":"2e0"`), `"2e0" is not a number in a string`},
		{"leading zero", change(`"seq":"2"`, `"seq":"02"`), `"02" is not a number in a string`},
		{"2^64", change(`"seq":"2"`, `"seq":"18446744073709551616"`), `"18446744073709551616" is not a number in a string`},
		{"2^63 where an int64 is", change(`"b":"9"`, `"b":"9223372036854775808"`), `9223372036854775808 is 2^63 or more`},
		{"time of 2^63", change(`"ts":"5"`, `"ts":"9223372036854775808"`), `9223372036854775808 is 2^63 or more`},
		{"number that is no string", change(`"seq":"2"`, `"seq":2`), `want '"'`},
		{"null", change(`"seq":"2"`, `"seq":null`), `want '"'`},
		{"format negative", change(`"format":2`, `"format":-1`), "-1 is not a whole number up to 2147483647"},
		{"format fraction", change(`"format":2`, `"format":2.0`), "2.0 is not a whole number up to 2147483647"},
		{"format exponent", change(`"format":2`, `"format":2e0`), "2e0 is not a whole number up to 2147483647"},
		{"format of 2^63", change(`"format":2`, `"format":9223372036854775808`), "9223372036854775808 is not a whole number up to 2147483647"},
		{"format in a string", change(`"format":2`, `"format":"2"`), "not a number"},
		{"format 0", change(`"format":2`, `"format":0`), "format 0 is not known"},
		{"not JSON's number", change(`"format":2`, `"format":02`), "not a number"},
		{"number of 2000 digits", change(`"format":2`, `"x":`+strings.Repeat("1", 2000)+`,"format":2`), "not a number"},
		{"no format", change(`"format":2,`, ``), `no field "format"`},
		{"missing field", change(`"seq":"2",`, ``), `no field "seq"`},
		{"missing field of a row", change(`,"b":"9"`, ``), `no field "b"`},
		{"field twice", change(`"seq":"2"`, `"seq":"2","seq":"2"`), `field "seq" occurs twice`},
		{"field twice, once escaped", change(`"seq":"2"`, `"seq":"2","\u0073eq":"2"`), `field "seq" occurs twice`},
		{"unknown field twice", change(`"seq"`, `"x":1,"x":2,"seq"`), `field "x" occurs twice`},
		{"field twice in what is skipped", change(`"seq"`, `"x":{"y":1,"y":1},"seq"`), `field "y" occurs twice`},
		{"10 000 levels", change(`"seq"`, `"x":`+deep+`,"seq"`), "more than 32 levels"},
		{"many fields", change(`"seq"`, `"x":{`+manyFields(5000)+`},"seq"`), "more than 4096 fields"},
		{"trailing text", change(`}}`, `}}x`), "1 bytes behind the end"},
		{"two objects", change(`}}`, `}}{}`), "2 bytes behind the end"},
		{"two lines", change(`}}`, "}}\n{}"), "more than one line before the checksum"},
		{"trailing comma", change(`}}`, `},}`), `want '"'`},
		{"no comma", change(`"1",`, `"1" `), `want ','`},
		{"no colon", change(`"seq":`, `"seq" `), `want ':'`},
		{"object cut off", change(`}}`, `}`), `want ','`},
		{"string cut off", change(`"9"}}`, `"9`), "a string has no end"},
		{"control character in a string", change(`"m"`, "\"m\t\""), "control character in a string"},
		{"wrong escape", change(`"m"`, `"\x6d"`), "a string is wrong"},
		{"wrong escape in what is skipped", change(`"seq"`, `"x":"\x","seq"`), "a string is wrong"},
		{"word that is none", change(`"seq"`, `"x":nil,"seq"`), "not a value"},
		{"comment", change(`"seq"`, `/**/"seq"`), `want '"'`},
		{"an array", signed(`[1]`), `want '{'`},
		{"nothing", signed(``), "no line with a checksum at the end"},
		{"not UTF-8", change(`"m"`, "\"\xff\""), "not UTF-8"},

		{"empty", nil, "no line with a checksum at the end"},
		{"no checksum", []byte("{}\n"), "no line with a checksum at the end"},
		{"checksum without newline", change("", "")[:len(change("", ""))-1], "no line with a checksum at the end"},
		{"a byte behind the checksum", append(change("", ""), '\n'), "no line with a checksum at the end"},
		{"wrong checksum", codectest.Flip(change("", ""), 8*20), "checksum *"},
		{"checksum in upper case", upperSum(change("", "")), "checksum *"},

		{"symbol", change(`"symbol":"m"`, `"symbol":"../m"`), `symbol "../m": a part of it is ".."`},
		{"head of another symbol", change(`"symbol":"m"`, `"symbol":"n"`), `head "` + head + `" is not version list element 2 of "n"`},
		{"head that is no key", change(head, "x"), `head: key "x": not a key of a store`},
		{"latest newer than head", change(`"v":"1"`, `"v":"2"`), "latest is newer than head"},
		{"no identity", change(`"i":"`+named, `"i":"`+strings.Repeat("0", 64)), "version 1 has no identity"},
		{"no root page", change(`"t":"`+hexed, `"t":"`+strings.Repeat("0", 64)), "version 1 has no root page"},
		{"root page that is no hash", change(`"t":"`+hexed, `"t":"x`), `hash "x": want 64 lower-case hex digits`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Decode(tt.in, new(Ref))
			var corrupt *codec.CorruptError
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tt.reason == "":
			case !errors.As(err, &corrupt):
				t.Errorf("error = %v, want a CorruptError", err)
			case corrupt.Reason != tt.reason && !(strings.HasSuffix(tt.reason, "*") && strings.HasPrefix(corrupt.Reason, tt.reason[:len(tt.reason)-1])):
				t.Errorf("reason = %q, want %q", corrupt.Reason, tt.reason)
			}
		})
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func upperSum(b []byte) []byte {
	b = slices.Clone(b)
	for i := len(b) - sumSize - 1; i < len(b); i++ {
		if 'a' <= b[i] && b[i] <= 'f' {
			b[i] -= 'a' - 'A'
		}
	}
	return b
}

// F48: a document larger than allowed is refused before anything is done with it.
func TestF48Limit(t *testing.T) {
	big := make([]byte, MaxLongDocument+1)
	for _, doc := range []Document{new(Ref), new(Version), new(Settings), new(Snapshot), new(Sweep)} {
		if n := testing.AllocsPerRun(1, func() { _ = Decode(big, doc) }); n > 10 {
			t.Errorf("%s: %v allocations", doc.what(), n)
		}
		if err := Decode(big[:doc.limit()+1], doc); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "are allowed") {
			t.Errorf("%s: %v", doc.what(), err)
		}
	}
	long := someVersion()
	long.Message = strings.Repeat("x", MaxVersion)
	if _, err := Encode(long); err == nil {
		t.Error("a version of over 16 MiB was encoded")
	}
}

// A document of a newer format is reported as such, whatever else it has.
func TestNewer(t *testing.T) {
	for name, text := range map[string]string{
		"alone":           `{"format":3}`,
		"last":            `{"symbol":17,"seq":{"a":[]},"format":3}`,
		"of a new symbol": `{"symbol":"..","format":2147483647}`,
	} {
		for _, doc := range []Document{new(Ref), new(Version), new(Settings), new(Snapshot), new(Sweep)} {
			err := Decode(signed(text), doc)
			if !errors.Is(err, ErrNewer) || errors.Is(err, codec.ErrCorrupt) || !strings.HasSuffix(err.Error(), "made by a newer xetfs") {
				t.Errorf("%s, %s: %v", doc.what(), name, err)
			}
		}
	}
	if err := Decode([]byte(`{"format":3}`+"\n"+strings.Repeat("0", 64)+"\n"), new(Ref)); errors.Is(err, ErrNewer) {
		t.Error("a document with a wrong checksum was believed")
	}
}

// A document of the older format is reported as such, with the way to mend it.
func TestOlder(t *testing.T) {
	err := Decode(signed(`{"format":1,"symbol":"m"}`), new(Ref))
	if !errors.Is(err, ErrOlder) || errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "publish the folders anew") {
		t.Error(err)
	}
}

// Every change of every document is refused: the checksum sees it.
func TestMutations(t *testing.T) {
	for name, doc := range someDocuments() {
		if name == "ver" || name == "tref" {
			continue // long, and no other than the rest
		}
		b, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		for damage, in := range codectest.Mutate(b) {
			if err := Decode(in, fresh(doc)); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: %s: %v", name, damage, err)
			}
		}
	}
}

// Encode refuses all that Decode would refuse.
func TestEncodeRefuses(t *testing.T) {
	version := func(change func(v *Version)) *Version {
		v := someVersion()
		change(v)
		return v
	}
	sweep := func(change func(w *Sweep)) *Sweep {
		w := someSweep()
		change(w)
		return w
	}
	settings := func(change func(s *Settings)) *Settings {
		s := DefaultSettings(txid, noon)
		change(s)
		return s
	}
	tests := []struct {
		name   string
		doc    Document
		reason string
	}{
		{"symbol", version(func(v *Version) { v.Symbol = "a//b" }), `ver: symbol "a//b": a part of it is empty`},
		{"no time", version(func(v *Version) { v.Time = time.Time{} }), "ver: time is 0001-01-01 00:00:00 +0000 UTC, which is before 1970 or after 2262"},
		{"time in 2300", version(func(v *Version) { v.Time = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }), "ver: time is 2300-01-01 00:00:00 +0000 UTC, which is before 1970 or after 2262"},
		{"txid", version(func(v *Version) { v.TxID = strings.ToUpper(txid) }), `ver: txid "00112233445566778899AABBCCDDEEFF": want 32 lower-case hex digits`},
		{"parent", version(func(v *Version) { v.Parent = "x" }), `ver: parent: key "x": not a key of a store`},
		{"parent of another symbol", version(func(v *Version) { v.Parent = verKey("m", 3, 2) }), `ver: parent "` + string(verKey("m", 3, 2)) + `" is not an older version of "org/model"`},
		{"next that is not older", version(func(v *Version) { v.Next = verKey("org/model", 3, 3) }), `ver: next "` + string(verKey("org/model", 3, 3)) + `" is not an older version of "org/model"`},
		{"no row", version(func(v *Version) { v.Rows = nil }), "ver: the first row is not that of the version"},
		{"row of another time", version(func(v *Version) { v.Rows[0].Time = noon.Add(3) }), "ver: the first row is not that of the version"},
		{"row from the future", version(func(v *Version) { v.Rows[0].Number = 5 }), "ver: row 5 in version 4"},
		{"rows oldest first", version(func(v *Version) { slices.Reverse(v.Rows) }), "ver: rows are not sorted, newest first"},
		{"rows of one time", version(func(v *Version) { v.Rows[1].Time = v.Time }), "ver: rows are not sorted, newest first"},
		{"negative entries", version(func(v *Version) { v.Rows[1].Entries = -1 }), "ver: version 1 has -1 entries and 1152921504606846976 bytes"},
		{"signature that is not base64", version(func(v *Version) { v.Rows[1].Sig = "AA=A" }), "ver: version 1: signature is not in base64"},
		{"signature of two lines", version(func(v *Version) { v.Rows[1].Sig = "AA\nAA" }), "ver: version 1: signature is not in base64"},
		{"long signature", version(func(v *Version) { v.Rows[1].Sig = strings.Repeat("A", MaxSignature+4) }), "ver: version 1: signature of 8196 bytes, at most 8192 are allowed"},
		{"no signature", version(func(v *Version) { v.Kind, v.Signs = Sign, 1 }), "ver: no signature of version 1"},
		{"empty interval", version(func(v *Version) { v.Deleted[0].To = 0 }), "ver: deleted intervals are empty, not sorted or overlap"},
		{"intervals overlap", version(func(v *Version) { v.Deleted[0].To = 3 }), "ver: deleted intervals are empty, not sorted or overlap"},
		{"interval from the future", version(func(v *Version) { v.Deleted[1].Seq = 4 }), "ver: deleted interval [2, 4) by change 4 is from the future"},
		{"interval of versions to come", version(func(v *Version) { v.Deleted[1].To = 6 }), "ver: deleted interval [2, 6) by change 2 is from the future"},
		{"message", version(func(v *Version) { v.Message = "\xff" }), `ver: message "\xff" is not UTF-8`},
		{"label", version(func(v *Version) { v.Labels["\xff"] = "" }), `ver: label "\xff" is not UTF-8`},
		{"snapshot", &Snapshot{Name: "a/b", Time: noon}, `tref: snapshot "a/b": it holds a slash`},
		{"symbol of a snapshot", &Snapshot{Name: "a", Time: noon, Rows: map[string]Row{"": row1}}, `tref: symbol "": a part of it is empty`},
		{"row of a snapshot", &Snapshot{Name: "a", Time: noon, Rows: map[string]Row{"m": {Time: noon}}}, `tref: m: version 0 has no root page`},
		{"replaced tree without a time", &Snapshot{Name: "a", Time: noon, Older: []OldTree{{Root: bytes32()}}}, "tref: time of a replaced tree is 0001-01-01 00:00:00 +0000 UTC, which is before 1970 or after 2262"},
		{"page sizes", settings(func(s *Settings) { s.Page.Bits = 11 }), "cref: page sizes: 11 bits, 1 to 10 are allowed"},
		{"block", settings(func(s *Settings) { s.Block = 0 }), "cref: block of 0 rows, 1 to 4096 are allowed"},
		{"window", settings(func(s *Settings) { s.Window = time.Millisecond }), "cref: window or grace of 1ms, whole seconds are allowed"},
		{"grace", settings(func(s *Settings) { s.Grace += 1 }), "cref: window or grace of 168h0m0.000000001s, whole seconds are allowed"},
		{"sweep list", sweep(func(w *Sweep) { w.List = SweepKey() }), `gc: list "gc/*sUt*sweep" is not the key of a sweep list`},
		{"kept ref", sweep(func(w *Sweep) { w.Kept[0] = RefKey("m") }), `gc: key "vref/*sUt*m": a reference is not for a sweep`},
		{"lease before", sweep(func(w *Sweep) { w.Deleting = false }), "gc: a lease before the sweep deletes"},
		{"no lease", sweep(func(w *Sweep) { w.Lease = time.Time{} }), "gc: lease is 0001-01-01 00:00:00 +0000 UTC, which is before 1970 or after 2262"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Encode(tt.doc); err == nil || err.Error() != tt.reason {
				t.Errorf("error = %v, want %s", err, tt.reason)
			}
		})
	}
}

// Decode also refuses errors in the other documents that Encode cannot make.
func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name     string
		doc      Document
		old, now string
		reason   string
	}{
		{"kind", someVersion(), `"kind":"write"`, `"kind":"undo"`, `kind "undo" is not known`},
		{"interval of two", someVersion(), `["0","1","0"]`, `["0","1"]`, `an interval of 2 numbers`},
		{"interval of four", someVersion(), `["0","1","0"]`, `["0","1","0","0"]`, `an interval of more than three numbers`},
		{"labels that are no texts", someVersion(), `"a":""`, `"a":1`, `want '"'`},
		{"state", someSweep(), `"deleting"`, `"done"`, `state "done" is not known`},
		{"no lease", someSweep(), `,"lease":"1700003600000000005"`, ``, `no field "lease"`},
		{"kept", someSweep(), `"tdata/xorb/07`, `"tdata/xorb/08`, `key "tdata/xorb/08/` + counting + `.xorb": not a key of a store`},
		{"no kept", someSweep(), `"kept":["tdata/xorb/07/` + counting + `.xorb"],`, ``, ``},
		{"symbols not sorted", someSnapshot(), `{"symbol":"a"`, `{"symbol":"z"`, `symbols are not sorted`},
		{"symbol twice", someSnapshot(), `{"symbol":"a"`, `{"symbol":"org/model"`, `symbols are not sorted`},
		{"sizes", DefaultSettings(txid, noon), `"bits":10`, `"bits":10.5`, `10.5 is not a whole number up to 2147483647`},
		{"window of 2^63", DefaultSettings(txid, noon), `"window_s":3600`, `"window_s":9223372036854775808`, `9223372036854775808 is not a whole number up to 2147483647`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Encode(tt.doc)
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(string(b), "\n")
			if !strings.Contains(text, tt.old) {
				t.Fatalf("no %s in %s", tt.old, text)
			}
			err = Decode(signed(strings.Replace(text, tt.old, tt.now, 1)), fresh(tt.doc))
			var corrupt *codec.CorruptError
			if errors.As(err, &corrupt); (err == nil) != (tt.reason == "") || err != nil && (corrupt == nil || corrupt.Reason != tt.reason) {
				t.Errorf("error = %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestDecodeVersion(t *testing.T) {
	v := someVersion()
	b, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	k := VersionKey(v, b)
	if got, err := DecodeVersion(k, b); err != nil || !cmp.Equal(got, v) {
		t.Errorf("DecodeVersion = %+v, %v", got, err)
	}
	other := *v
	other.Seq++
	for name, k := range map[string]Key{
		"another seq": VersionKey(&other, b), "another hash": VersionKey(v, nil), "a page": PageKey(page.Sum(b)), "a ref": RefKey("m"), "no key": "x",
	} {
		if _, err := DecodeVersion(k, b); err == nil {
			t.Errorf("taken for %s", name)
		}
	}
}

func TestCheckValue(t *testing.T) {
	b := []byte("value")
	for _, k := range []Key{PageKey(page.Sum(b)), SymbolListKey(noon, b), SweepListKey(b)} {
		if err := CheckValue(k, b); err != nil {
			t.Error(err)
		}
		if err := CheckValue(k, b[1:]); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", k, err)
		}
	}
	if err := CheckValue(SymbolKey(Symbol{Name: "m", Time: noon}), nil); err != nil {
		t.Error(err)
	}
	if err := CheckValue(XorbKey(bytes32()), b); err == nil || errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a xorb: %v", err)
	}
}

// FuzzDecodeDocument gives every decoder a line with the right checksum. None panics,
// and what is accepted encodes to a document that says the same.
func FuzzDecodeDocument(f *testing.F) {
	for _, doc := range someDocuments() {
		b, err := Encode(doc)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(b), "\n")
		f.Add(text)
	}
	f.Add(`{"format":3}`)
	f.Add(`["m","1","add","5"]`)
	f.Fuzz(func(t *testing.T, text string) {
		in := signed(text)
		for _, doc := range []Document{new(Ref), new(Version), new(Settings), new(Snapshot), new(Sweep)} {
			err := Decode(in, doc)
			if err != nil {
				if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrNewer) {
					t.Errorf("error %v is neither ErrCorrupt nor ErrNewer", err)
				}
				continue
			}
			out, err := Encode(doc)
			if err != nil {
				t.Fatalf("decoded, and refused: %v", err)
			}
			again := fresh(doc)
			if err := Decode(out, again); err != nil {
				t.Fatal(err)
			}
			if second, err := Encode(again); err != nil || string(second) != string(out) {
				t.Errorf("%s became %s, %v", out, second, err)
			}
		}
		if list, err := DecodeSymbols(in); err == nil {
			if _, err := EncodeSymbols(list); err != nil {
				t.Errorf("symbol list decoded, and refused: %v", err)
			}
		}
		if err := Describe(new(strings.Builder), in); err != nil {
			t.Error(err)
		}
		if err := Describe(new(strings.Builder), []byte(text)); err != nil {
			t.Error(err)
		}
	})
}
