package status

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// figuresArg makes the test program the reader of Fill.
const figuresArg = "print-figures"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == figuresArg {
		for i := range os.Args[2:] {
			line, _ := json.Marshal(answer{i, Mount{State: StateOK, Raw: json.RawMessage(`{}`)}}) // it has no odd types
			fmt.Println(string(line))
		}
		return
	}
	os.Exit(m.Run())
}

// The answers of a reader that has ended are complete.
func TestFillAfterEndOfReader(t *testing.T) {
	for range 100 {
		mounts := make([]Mount, 200)
		if err := Fill(t.Context(), mounts, []string{os.Args[0], figuresArg}, time.Minute); err != nil {
			t.Fatal(err)
		}
		for i, m := range mounts {
			if m.State != StateOK {
				t.Fatalf("no answer of mount %d", i)
			}
		}
	}
}
