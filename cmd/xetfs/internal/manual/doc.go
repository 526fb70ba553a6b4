// Package manual renders help texts as plain text and as man pages.
//
// # API
//
//	Parse             text → blocks
//	Title             blocks → the first heading
//	Text              blocks → plain text of a width
//	Page, Page.Man    a man page in the language of man(7)
//
// # The language of help texts
//
// It is a part of Markdown. A line that is not one of these is part of a paragraph:
//
//	# Title, ## Heading, ### Heading
//	* item, with further lines indented by two spaces
//	| cell | cell |, a row of a table; a row of dashes ends the heading
//	    code, indented by two or more spaces after an empty line
//	``` before and after code
//
// Within a paragraph, **bold** and `code` lose their marks, and [text](address) becomes text.
package manual
