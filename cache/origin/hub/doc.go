// Package hub reads repositories of the Hugging Face Hub. The handlers of its API are in packages
// hubserve and hubwrite.
//
//	ParseAddress    hf://[datasets/|spaces/|buckets/]owner/name[@revision][/path]
//	ParseOwner      hf://owner, the address of all repositories of an owner
//	RepoID          a repository in paths; Check is the rule for new names
//	Open, Resolve   a Repo of the Hub; the commit of its revision
//	Repo.List       the files of a commit, page by page
//	Repo.ReadToken  a ReadToken for the CAS server with the files in Xet
//	NewPlain        a Source of the files outside Xet, by ranges of their content
//	Locator         finds these files by their names; PlainFile
//	NewSplit        one Source over those and the files in Xet
package hub
