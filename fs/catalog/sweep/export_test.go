package sweep

// For tests of this package that are not in it.
var Shortened = shortened
