// Package lru has a map that is bounded by the cost of its entries and evicts the least
// recently used entry first.
//
// In order of use: New, Get, Add, All, Remove. NewClock is for values that many cores look up. Open
// files have reference counts and an idle time; see cache/recent.
package lru
