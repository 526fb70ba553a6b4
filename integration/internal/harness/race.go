//go:build race

package harness

func init() { RaceEnabled = true }
