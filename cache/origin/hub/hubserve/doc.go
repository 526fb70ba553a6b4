// Package hubserve serves repositories through the API of the Hugging Face Hub. Its client is package
// hub, from which it has the names of repositories and the errors about them.
//
//	NewHandler      the read side of the API: repositories, trees, files and read tokens
//	Repos, Commit   the repositories that the handler shows; Lister lists them, History their commits
//	Content         the bytes of their files
//	Tokens          tokens for the CAS API
//	Writes          the write side, package hubwrite; Target is the path of a request
//	RepoOf          the repository in a path; IsRepoName checks a name
//	SendJSON, Base  a document as the answer; the address of the server in it
//	Refusal         an error with the status of its answer
//
// The handler serves these routes. TYPE is models, datasets or spaces, and REPO has one or two
// segments. REV is a branch, a tag or a commit hash.
//
//	/api/TYPE                                 repositories by author and search, in pages
//	/api/TYPE/REPO[/revision/REV]             facts about a commit, and its files
//	/api/TYPE/REPO/refs                       branches and tags
//	/api/TYPE/REPO/tree/REV[/PATH]            entries of a folder, in pages
//	/api/TYPE/REPO/paths-info/REV             entries of the paths in a POST body
//	/api/TYPE/REPO/commits/REV                commits, newest first, in pages
//	/api/TYPE/REPO/xet-read-token/REV         a token for the CAS API
//	/api/whoami-v2                            the name of the token in the request
//	[/TYPE]/REPO/resolve/REV/PATH             the content of a file, with its Xet headers
//	[/TYPE]/REPO/raw/REV/PATH                 the same, or the LFS pointer of a large file
//
// Paths that change repositories get 403 without Writes. All other paths are not found, also for
// POST: clients then use older routes.
package hubserve
