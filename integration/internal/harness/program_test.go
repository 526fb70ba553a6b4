package harness

import (
	"os"
	"testing"
)

// The programs that tests run do not inherit the name of the program under test.
func TestNamedProgram(t *testing.T) {
	t.Setenv(binaryEnv, "/bin/named")
	var b builder
	b.run()
	if left, ok := os.LookupEnv(binaryEnv); b.path != "/bin/named" || b.dir != "" || ok {
		t.Errorf("program %q in %q, environment %q", b.path, b.dir, left)
	}
}
