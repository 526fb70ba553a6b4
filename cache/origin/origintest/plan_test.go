package origintest_test

import (
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A Plan without damage fulfils each sentence of a Source without proofs. It reads its store
// in requests of its own, so they are not counted.
func TestPlan(t *testing.T) {
	origintest.SourceSuite{
		Local: func(origin.Store) bool { return false },
		Open: func(t *testing.T, s origin.Store) origin.Source {
			p := origintest.NewPlan(objects.New(s, objects.Options{}), nil)
			p.Lengths = true
			return p
		},
	}.Run(t)
}
