package names

import (
	"bytes"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

func TestDescribe(t *testing.T) {
	encode := func(doc Document) []byte {
		b, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	symbols, err := EncodeSymbols([]Symbol{{Name: "a", Seq: 1, Time: noon}, {Name: "org/m", Seq: 2, Time: noon, Gone: true}})
	if err != nil {
		t.Fatal(err)
	}
	sweepList, err := EncodeSweepList([]Key{XorbKey(bytes32()), PageKey(bytes32())})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		in   []byte
		is   bool
	}{
		{"vref", encode(someRef()), true},
		{"ver", encode(someVersion()), true},
		{"tref", encode(someSnapshot()), true},
		{"cref", encode(DefaultSettings(txid, noon)), true},
		{"gc", encode(someSweep()), true},
		{"symbols", symbols, true},
		{"gcl", sweepList, true},
		{"newer", signed(`{"format":3,"head":{"new":true}}`), true},
		{"older", signed(`{"format":1,"head":{"old":true}}`), true},
		{"damaged", codectest.Put(encode(someRef()), 30, '9'), true},
		{"torn", encode(someRef())[:100], false},
		{"none", []byte("something \x00 else\n"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Describe(&got, tt.in); err != nil {
				t.Fatal(err)
			}
			codectest.Golden(t, "testdata/"+tt.name+".txt", got.Bytes())
			if Is(tt.in) != tt.is {
				t.Errorf("Is says %v", Is(tt.in))
			}
		})
	}
}
