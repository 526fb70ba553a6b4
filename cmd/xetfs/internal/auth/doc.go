// Package auth reads secrets from files: tokens, and passwords of netrc files.
//
//	ReadTokens  the tokens in a private file
//	ReadGrants  the same, with the symbols that each may read
//	ReadKey     a secret key
//	FindLogin   the login for a host in the text of a netrc file
//	Client      the header Authorization of requests to one host
//	NewHub      the token of the Hugging Face Hub
//
// The size of each file is bounded. Errors contain the path and no part of the content.
package auth
