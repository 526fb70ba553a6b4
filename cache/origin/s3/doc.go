// Package s3 stores objects in a bucket of an S3-compatible server.
//
//	Check, Open     s3://BUCKET/PREFIX → Store
//	Store           origin.WriteStore with PartReader, ProgressReader and WholeReader
//	Conditions      the conditional writes that the bucket honours
//	RemoveStray     aborts unfinished uploads to keys of the store
//
// The key of an object is PREFIX/ and the key of origin. minio-go provides credentials and
// signatures. Requests are own code, because a lost answer to a conditional write needs exactly
// one attempt, and every wait needs a context.
//
// # Writes
//
//	answer                         PutIfAbsent    PutIfMatch
//	200                            tag            tag
//	412                            ErrExists      ErrConflict
//	404                                           ErrConflict
//	409, 429                       retried        retried
//	timeout, cut answer, 5xx       ErrUnknown     ErrUnknown
//
// A tag is the ETag with its quotes. Objects that their content names are retried through
// ErrUnknown, since every writer stores the same bytes. Other objects are never retried.
//
// The API is at https://docs.aws.amazon.com/AmazonS3/latest/API.
package s3
