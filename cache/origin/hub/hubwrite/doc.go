// Package hubwrite answers the requests of the Hub API that change repositories.
//
//	NewHandler     the routes below, as hubserve.Writes
//	Repos          the repositories that the handler changes
//	ReadCommit     the header and the operations in the body of a commit
//
//	POST   /api/repos/create                            a repository without files
//	DELETE /api/repos/delete
//	POST   /api/repos/move
//	POST   /api/validate-yaml                           accepts all metadata
//	POST   /api/TYPE/REPO/preupload/REV                 the mode of each file: regular or lfs
//	GET    /api/TYPE/REPO/xet-write-token/REV           a token for uploads by the CAS API
//	POST   /api/TYPE/REPO/commit/REV                    one commit, as lines of JSON
//	POST   [/TYPE]/REPO.git/info/lfs/objects/batch      actions for large files
//	PUT    [/TYPE]/REPO.git/info/lfs/objects/SHA256     the content of one, with a token in the query
//
// REV is the branch main. Other branches, tags, pull requests and discussions do not exist here. The
// handler has HTTP and JSON only. It bounds each body before it reads it.
package hubwrite
