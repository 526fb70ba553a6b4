package origin

import "context"

// answerKey is the key of the function of WithAnswer.
type answerKey struct{}

// WithAnswer returns a context for one call of a Store. The store calls fn, through Answered,
// once its answer has begun.
func WithAnswer(ctx context.Context, fn func(size int64)) context.Context {
	return context.WithValue(ctx, answerKey{}, fn)
}

// Answered reports that the answer to the call of ctx has begun. A remote Store calls it, so
// that a layer above can move its time limit. size is the length of a document; -1: unknown,
// or data.
func Answered(ctx context.Context, size int64) {
	if fn, ok := ctx.Value(answerKey{}).(func(size int64)); ok {
		fn(size)
	}
}
