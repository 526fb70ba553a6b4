package report

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
)

// An error of the machine or of the network ends a check. It is no damage, nor are its consequences.
func TestFaults_Machine(t *testing.T) {
	local := func(err error) error { return &origin.LocalError{Path: "a", Err: err} }
	for _, err := range []error{local(syscall.EMFILE), local(syscall.ENFILE), local(syscall.ENOMEM), origin.ErrUnavailable} {
		stopped := false
		f := NewFaults(t.Output(), nil, false, func() { stopped = true })
		f.Fault(verify.Fault{Path: "a", Err: fmt.Errorf("xorb: %w", err)})
		f.Fault(verify.Fault{Path: "b", Err: codec.Corrupt("shard", 0, "needs a")})
		if !stopped || f.MachineErr() == nil || f.counts.faults != 0 {
			t.Errorf("%v: stopped %v, machine error %v, %d faults", err, stopped, f.MachineErr(), f.counts.faults)
		}
	}
	f := NewFaults(t.Output(), nil, false, func() { t.Error("a disk error ends the check") })
	if f.Fault(verify.Fault{Path: "a", Err: local(syscall.EIO)}); f.MachineErr() != nil || f.counts.faults != 1 {
		t.Errorf("a disk error: machine error %v, %d faults", f.MachineErr(), f.counts.faults)
	}
}
