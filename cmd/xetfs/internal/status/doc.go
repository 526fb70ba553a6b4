// Package status collects and renders the figures of a mount or of a server.
//
// In order of use: Collector.Collect, Collector.CollectServer; Stats; Page.Listen. Lists of mounts: Mounts,
// Select, FromSource, Around; Fill; WritingTo, Mount.CheckStoring, Mount.FolderOf.
package status
