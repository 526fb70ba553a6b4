package shard

import "strings"

// IsShard reports whether an object that begins with head is a shard, good or damaged:
// head must hold the whole magic, of 32 bytes.
func IsShard(head []byte) bool { return strings.HasPrefix(string(head), magic) }
