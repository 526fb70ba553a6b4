package cas

import (
	"context"
	"testing"
)

// A late 401 to a replaced token does not refuse its successor.
func TestLateRefusal(t *testing.T) {
	calls := 0
	c := NewClient(Options{Tokens: TokenFunc(func(context.Context) (Token, error) {
		calls++
		return Token{URL: "http://localhost"}, nil
	})})
	defer c.Close()
	get := func() *activeToken {
		token, err := c.tokens.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := get()
	c.tokens.refuse(first)
	second := get()
	c.tokens.refuse(first)
	if get() != second || calls != 2 {
		t.Errorf("%d tokens were requested, want 2", calls)
	}
}
