// Package page has the files of the status page. The page draws /stats.json.
package page

import "embed"

// Files are index.html and its parts.
//
//go:embed index.html page.css page.js
var Files embed.FS
