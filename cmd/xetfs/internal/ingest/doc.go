// Package ingest reads folders, packs the content of their files and yields an entry for each
// name, in the order of keys.
//
//	ReadIgnoreFile     the patterns of a folder
//	New                an Ingest of one or more folders
//	Ingest.Measure     adds the sizes of all files to the progress bar
//	Ingest.Entries     the entries of a tree; All also has the place of each
//	Report             receives counts, skipped paths and notes
//	Ingest.Stats       what was packed; Excluded, Shards and Err have the rest
//
// Batches of entries pass through four stages:
//
//	lister ──▶ readers ──▶ packer ──▶ reorder buffer ──▶ caller
//	names      stat, read  chunks     waits for          in the order of keys
//	           small files            shards
//
// Each name is opened relative to its open folder, so a folder that becomes a link leads
// nowhere. An error of this machine ends the Ingest. An error of one file skips the file.
package ingest
