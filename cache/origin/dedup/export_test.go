package dedup

// Listed returns the number of shards and xorbs that Open listed.
func Listed(k *Index) int { return len(k.shardAge) + len(k.byHash) }
