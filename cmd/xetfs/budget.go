package main

import (
	"log/slog"

	"github.com/xetfs/xetfs/cache"
)

// A budget is --memory, divided. No part is zero, which would mean a default.
type budget struct {
	unpacked int64 // chunks in memory
	ahead    int64 // packed chunks fetched ahead
	infos    int64 // where the chunks of xorbs lie
	terms    int64 // of files
}

// divide splits a number of bytes: most for chunks that may be asked for again.
func divide(bytes int64) budget {
	b := budget{ahead: max(1, bytes/4), infos: max(1, bytes/8), terms: max(1, bytes/16)}
	b.unpacked = max(1, bytes-b.ahead-b.infos-b.terms)
	return b
}

// cacheOptions are the Options of the cache for a budget.
func (b budget) cacheOptions(noVerify bool, log *slog.Logger) cache.Options {
	return cache.Options{MemoryBytes: b.unpacked, AheadBytes: b.ahead, NoVerify: noVerify, Logger: log}
}
