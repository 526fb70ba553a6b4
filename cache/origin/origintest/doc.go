// Package origintest holds the promises of package origin as tests. It also has helpers for
// tests of packages above origin: stores in memory, stores with real data, and Sources that
// fail on command.
package origintest
