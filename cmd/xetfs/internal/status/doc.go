// Package status collects and renders the figures of a mount or of a server.
//
// In order of use: Collector.Collect, Collector.CollectServer; Stats; Page.Listen.
package status
