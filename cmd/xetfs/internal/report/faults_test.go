package report

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
)

// An error of the machine ends a check, and neither it nor what follows from it is damage.
func TestFaults_Machine(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		stopped := false
		f := NewFaults(t.Output(), nil, false, func() { stopped = true })
		f.Fault(verify.Fault{Path: "a", Err: fmt.Errorf("xorb: %w", &origin.LocalError{Path: "a", Err: err})})
		f.Fault(verify.Fault{Path: "b", Err: codec.Corrupt("shard", 0, "needs a")})
		if !stopped || f.MachineErr() == nil || f.counts.faults != 0 {
			t.Errorf("%v: stopped %v, machine error %v, %d faults", err, stopped, f.MachineErr(), f.counts.faults)
		}
	}
}
