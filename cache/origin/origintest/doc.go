// Package origintest holds the promises of package origin as tests, and what tests of
// the floors above need below them: stores in memory, stores full of real data, and
// Sources that fail on command.
package origintest
