package xorb

import (
	"bytes"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

func TestPeek(t *testing.T) {
	var body bytes.Buffer
	w := NewWriter(&body)
	if err := w.Add(codec.Hash{1}, []byte("Hello World!"), None); err != nil {
		t.Fatal(err)
	}
	plain := body.Bytes()
	whole := w.Info().AppendFooter(bytes.Clone(plain))
	tests := []struct {
		name string
		in   []byte
		want codec.Hash
		err  error
	}{
		{"footer", whole, w.Info().Xorb, nil},
		{"no footer", plain, codec.Hash{}, ErrNoFooter},
		{"one byte less", whole[:len(whole)-1], codec.Hash{}, ErrNoFooter},
		{"other version", replaced(whole, len(plain)+7, 2), codec.Hash{}, ErrNoFooter},
		{"length longer than the object", append(bytes.Clone(plain), 0xff, 0xff, 0xff, 0xff), codec.Hash{}, ErrNoFooter},
		{"three bytes", []byte{1, 2, 3}, codec.Hash{}, ErrNoFooter},
		{"nothing", nil, codec.Hash{}, ErrNoFooter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Peek(bytes.NewReader(tt.in), int64(len(tt.in)))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Peek = %s, %v, want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func replaced(b []byte, at int, with byte) []byte {
	b = bytes.Clone(b)
	b[at] = with
	return b
}
