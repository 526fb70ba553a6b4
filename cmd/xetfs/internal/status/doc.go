// Package status collects and renders the figures of a mount.
//
// In order of use: Collector.Collect; Stats.
package status
