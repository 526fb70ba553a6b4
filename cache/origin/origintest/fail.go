package origintest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Fail returns a Source that fails by a rule, and otherwise forwards each call to src. A rule has
// clauses that are separated by ";":
//
//	chunks 3: unavailable      the third call of Chunks, counted from 1
//	chunks 2-4: corrupt        those from the second to the fourth: one bit of the last chunk is wrong
//	narrow 2-: hang            from the second on, until the context ends
//	chunks: slow 25ms          all of them, before anything else
//	fileinfo: notfound         all of them return origin.ErrNotFound
//	any: panic                 each method
//
// Several clauses may apply to one call, slow ones first. Calls are counted for each method. Fail
// panics if the rule is invalid.
func Fail(src origin.Source, rule string) origin.Source {
	f := &failSource{Source: src, calls: map[string]int{}}
	for clause := range strings.SplitSeq(rule, ";") {
		if clause = strings.TrimSpace(clause); clause != "" {
			f.clauses = append(f.clauses, parseClause(clause))
		}
	}
	return f
}

// A failSource is a Source with a rule.
type failSource struct {
	origin.Source
	clauses []clause

	mu    sync.Mutex
	calls map[string]int // of each method; guarded by mu
}

// A clause is an action for some calls of a method.
type clause struct {
	op          string // "fileinfo", "narrow", "chunks", "any"
	first, last int
	action      string
	pause       time.Duration // of slow
}

const always = 1 << 30

func parseClause(s string) clause {
	when, action, ok := strings.Cut(s, ":")
	op, calls, _ := strings.Cut(strings.TrimSpace(when), " ")
	c := clause{op: op, first: 1, last: always}
	if calls != "" {
		from, to, several := strings.Cut(calls, "-")
		c.first = number(s, from)
		switch {
		case !several:
			c.last = c.first
		case to != "":
			c.last = number(s, to)
		}
	}
	word, pause, _ := strings.Cut(strings.TrimSpace(action), " ")
	c.action = word
	var err error
	switch word {
	case "slow":
		c.pause, err = time.ParseDuration(pause)
	case "unavailable", "notfound", "corrupt", "hang", "panic":
	default:
		ok = false
	}
	switch op {
	case "fileinfo", "narrow", "chunks", "any":
	default:
		ok = false
	}
	if !ok || err != nil {
		panic(fmt.Sprintf("rule %q: want METHOD [N | N- | N-M]: ACTION", s))
	}
	return c
}

func number(clause, s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 1 {
		panic(fmt.Sprintf("rule %q: %q is not the number of a call", clause, s))
	}
	return n
}

// happens applies the rule to a call of a method. damage reports whether the result must be
// corrupt.
func (f *failSource) happens(ctx context.Context, op string) (damage bool, err error) {
	f.mu.Lock()
	f.calls[op]++
	n := f.calls[op]
	f.mu.Unlock()
	for _, c := range f.clauses {
		if (c.op != op && c.op != "any") || n < c.first || n > c.last {
			continue
		}
		switch c.action {
		case "slow":
			err = pause(ctx, time.After(c.pause))
		case "hang":
			err = pause(ctx, nil)
		case "unavailable":
			err = fmt.Errorf("%s %d: %w", op, n, origin.ErrUnavailable)
		case "notfound":
			err = fmt.Errorf("%s %d: %w", op, n, origin.ErrNotFound)
		case "panic":
			panic(fmt.Sprintf("%s %d, as the rule says", op, n))
		case "corrupt":
			damage = true
		}
		if err != nil {
			return false, err
		}
	}
	return damage, nil
}

func pause(ctx context.Context, over <-chan time.Time) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryChunks implements origin.Source. It returns no run, so that the rule for Chunks applies.
func (f *failSource) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

// FileInfo implements origin.Source.
func (f *failSource) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	if err := f.fileInfoErr(ctx); err != nil {
		return nil, err
	}
	return f.Source.FileInfo(ctx, id)
}

// OpenFile implements origin.Source. It counts as FileInfo.
func (f *failSource) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	if err := f.fileInfoErr(ctx); err != nil {
		return nil, nil, err
	}
	return f.Source.OpenFile(ctx, id)
}

func (f *failSource) fileInfoErr(ctx context.Context) error {
	damage, err := f.happens(ctx, "fileinfo")
	if damage {
		err = codec.Corrupt("file info block", 48, "it is damaged, as the rule says")
	}
	return err
}

// Narrow implements origin.Source.
func (f *failSource) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	damage, err := f.happens(ctx, "narrow")
	if damage {
		err = codec.Corrupt("xorb footer", 0, "it is damaged, as the rule says")
	}
	if err != nil {
		return codec.ChunkRange{}, 0, err
	}
	return f.Source.Narrow(ctx, id, t, p)
}

// Chunks implements origin.Source.
func (f *failSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	damage, err := f.happens(ctx, "chunks")
	if err != nil {
		return nil, err
	}
	if !damage {
		return f.Source.Chunks(ctx, x, r, o)
	}
	run, err := f.Source.Chunks(ctx, x, r, origin.ReadOptions{})
	if err != nil {
		return nil, err
	}
	packed := bytes.Clone(run.Packed)
	packed[len(packed)-1] ^= 1
	return xorb.ParseRun(packed, r, run.Hashes)
}
