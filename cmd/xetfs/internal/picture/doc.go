// Package picture draws HTML pages: the difference between two trees, and the fields of one
// stored object.
//
//	Create         a file that a page replaces as a whole
//	Diff           the page of xetfs diff
//	WriteObject    the page of xetfs inspect
//	Strip, Add     a row of cells
//
// A page has no script and no foreign address. Its size has a bound. A strip with too many cells
// merges neighbours. A page with too many strips or damages states how many it omits.
package picture
