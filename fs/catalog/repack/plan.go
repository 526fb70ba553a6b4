package repack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// A Plan is what a repack of a store replaces.
type Plan struct {
	Xorbs  map[codec.Hash]bool // that are replaced
	Shards map[codec.Hash]bool // whose live files get new shards

	Replaced sweep.Counts // of Xorbs
	Copy     int64        // of the bytes in Replaced, those of live chunks, which are copied
	Lists    sweep.Counts // of Shards
	all      int64        // packed bytes of all xorbs
}

// shardBytes is the size at which a repack ends a shard, as other writers do.
const shardBytes = 4 << 20

// smallPart is how many times an object fits into a full one at least, if it is small.
const smallPart = 4

// isSmall reports whether a xorb is below a quarter of each limit.
func isSmall(x *sweep.XorbUsage) bool {
	return max(x.Packed, x.Unpacked)*smallPart < codec.MaxXorbSize && x.Chunks*smallPart < codec.MaxXorbChunks
}

// NewPlan returns what a repack replaces. It replaces a xorb if more than a share of its bytes is
// unused. Several small xorbs are joined, and so are small shards. A shard that names a replaced
// xorb is replaced, too, because a sweep keeps what a live shard names. A xorb of unknown size
// stays. The result has only what shards name for which only returns true; nil: all.
func NewPlan(u *sweep.Usage, maxUnused float64, only func(shard codec.Hash) bool) *Plan {
	p := &Plan{Xorbs: map[codec.Hash]bool{}, Shards: map[codec.Hash]bool{}}
	candidates := u.Xorbs
	if only != nil {
		candidates = map[codec.Hash]*sweep.XorbUsage{}
		for h, s := range u.Shards {
			if only(h) {
				for _, x := range s.Xorbs {
					candidates[x] = u.Xorbs[x]
				}
			}
		}
	}
	var small []codec.Hash
	joined := 0
	for h, x := range candidates {
		switch {
		case x.Err != nil || x.Packed == 0:
		case float64(x.Packed-x.Used) > maxUnused*float64(x.Packed):
			p.Xorbs[h] = true
			if x.Used > 0 {
				joined = 1
			}
		case isSmall(x):
			small = append(small, h)
		}
	}
	if len(small)+joined > 1 {
		for _, h := range small {
			p.Xorbs[h] = true
		}
	}
	var smallShards []codec.Hash
	for h, s := range u.Shards {
		switch {
		case namesOne(s, p.Xorbs):
			p.Shards[h] = true
		case s.Size*smallPart < shardBytes && (only == nil || only(h)):
			smallShards = append(smallShards, h)
		}
	}
	if len(smallShards)+min(len(p.Shards), 1) > 1 {
		for _, h := range smallShards {
			p.Shards[h] = true
		}
	}
	p.sum(u)
	return p
}

// namesOne reports whether a shard names one of some xorbs.
func namesOne(s *sweep.ShardUsage, xorbs map[codec.Hash]bool) bool {
	for _, x := range s.Xorbs {
		if xorbs[x] {
			return true
		}
	}
	return false
}

func (p *Plan) sum(u *sweep.Usage) {
	for h := range p.Xorbs {
		p.Replaced.Objects++
		p.Replaced.Bytes += u.Xorbs[h].Packed
		p.Copy += u.Xorbs[h].Used
	}
	for h := range p.Shards {
		p.Lists.Objects++
		p.Lists.Bytes += u.Shards[h].Size
	}
	for _, x := range u.Xorbs {
		p.all += x.Packed
	}
}

// IsEmpty reports whether nothing is to be replaced.
func (p *Plan) IsEmpty() bool { return len(p.Xorbs)+len(p.Shards) == 0 }

// Freed returns the bytes of xorbs that a sweep can delete after the repack, less those of the
// new xorbs.
func (p *Plan) Freed() int64 { return p.Replaced.Bytes - p.Copy }

// ObjectsAfter returns about how many xorbs and shards take the place of the replaced ones.
func (p *Plan) ObjectsAfter() (xorbs, shards int64) {
	return (p.Copy + codec.MaxXorbSize - 1) / codec.MaxXorbSize, (p.Lists.Bytes + shardBytes - 1) / shardBytes
}

const (
	worthPart    = 20 // a repack is worth while from a twentieth of all bytes on,
	worthObjects = 50 // or from this number of objects less on
)

// IsWorthwhile reports whether a repack saves much.
func (p *Plan) IsWorthwhile() bool {
	xorbs, shards := p.ObjectsAfter()
	return p.Freed()*worthPart > p.all || p.Replaced.Objects+p.Lists.Objects-xorbs-shards >= worthObjects
}
