// Package extract copies the files of a tree into a local folder, without a mount.
//
//	Run, Options  copies some paths of a tree
//	Result        the counts of a run
//
// Each file is written under a temporary name in its own folder, compared with its hash, and then
// renamed. A file with the right size and time is left as it is, so a second run continues the
// first one. Large files are durable before they get their names, and small ones at the end of a run.
//
// Folders are opened one below the other, without following links, and all names are relative to
// an open folder. So a link in the tree or in the target leads no write out of the target.
package extract
