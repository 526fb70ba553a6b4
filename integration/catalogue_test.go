package integration

import (
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// catalogueRows returns the lines of the reliability catalogue about origins, the network, and
// the security of both.
func catalogueRows() (rows []string) {
	for i := range 33 {
		rows = append(rows, fmt.Sprintf("O%02d", i+1))
	}
	for i := range 20 {
		rows = append(rows, fmt.Sprintf("N%02d", i+1))
	}
	return append(rows, "S07", "S08", "S09", "S10", "S14")
}

// withoutTest are lines that may have no test, and the reason.
var withoutTest = map[string]string{
	"O02": "of the CAS API",
	"O05": "of the CAS API",
	"O13": "no request has several ranges",
	"O17": "a mount has one origin; TestAgain of package cache reads another copy of a chunk",
	"N15": "requests speak HTTP/1.1 only",
}

var (
	words   = regexp.MustCompile(`[A-Za-z0-9]+`)
	rowName = regexp.MustCompile(`^(?:Test)?([ONS][0-3][0-9])$`)
)

// TestCatalogue lists the tests of each line (-v), and names the lines without any.
func TestCatalogue(t *testing.T) {
	tests := testsOfRows(t, harness.Root(t))
	for _, row := range catalogueRows() {
		switch found := slices.Sorted(slices.Values(tests[row])); {
		case len(found) > 0:
			t.Logf("%s  %s", row, strings.Join(slices.Compact(found), ", "))
		case withoutTest[row] != "":
			t.Logf("%s  no test: %s", row, withoutTest[row])
		default:
			t.Errorf("%s has no test", row)
		}
	}
}

// funcLine begins a test function.
var funcLine = regexp.MustCompile(`^func (Test[A-Za-z0-9_]*)\(`)

// testsOfRows returns the places that name a row: a test function of a package, or a script.
func testsOfRows(t *testing.T, root string) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d iofs.DirEntry, err error) error {
		isScript := strings.HasSuffix(path, ".txtar")
		if err != nil || d.IsDir() || d.Name() == "catalogue_test.go" || !isScript && !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		for _, place := range placesOfRows(string(text), isScript) {
			where := name
			if place.test != "" {
				where = filepath.Dir(name) + "." + place.test
			}
			tests[place.row] = append(tests[place.row], where)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// A rowPlace is a row in a test; "": outside of all tests.
type rowPlace struct{ row, test string }

// placesOfRows returns the rows in a file. A comment belongs to the test that follows it.
func placesOfRows(text string, isScript bool) (places []rowPlace) {
	test, pending := "", 0
	for line := range strings.Lines(text) {
		found := funcLine.FindStringSubmatch(line)
		if found != nil {
			test = found[1]
			for i := len(places) - pending; i < len(places); i++ {
				places[i].test = test
			}
		}
		isComment := strings.HasPrefix(line, "//")
		if !isComment {
			pending = 0
		}
		for _, word := range words.FindAllString(line, -1) {
			row := rowName.FindStringSubmatch(word)
			if row == nil {
				continue
			}
			places = append(places, rowPlace{row[1], test})
			if isComment {
				pending++
			}
		}
		if line == "}\n" {
			test = ""
		}
	}
	return places
}

func TestPlacesOfRows(t *testing.T) {
	const text = "// O01, N02: a fault.\nfunc TestO03_Fault(t *testing.T) {\n\tt.Run(\"O04 x\")\n}\n\nvar table = []row{\n\t{\"O05\", 1},\n}\n"
	want := []rowPlace{{"O01", "TestO03_Fault"}, {"N02", "TestO03_Fault"}, {"O03", "TestO03_Fault"}, {"O04", "TestO03_Fault"}, {"O05", ""}}
	if got := placesOfRows(text, false); !slices.Equal(got, want) {
		t.Errorf("places are %v, want %v", got, want)
	}
}
