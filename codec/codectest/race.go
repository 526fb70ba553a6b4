//go:build race

package codectest

// Race says that the race detector is on. Pools lose things on purpose then, so
// allocations cannot be counted.
const Race = true
