package dedup

// Listed returns the number of shards and xorbs that Open listed.
func Listed(k *Index) int { return len(k.listed) + len(k.byHash) }
