package report

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
)

// An error of the machine or of the network ends a check. It is no damage, nor are its consequences.
func TestFaults_Machine(t *testing.T) {
	local := func(err error) error { return &origin.LocalError{Path: "a", Err: err} }
	for _, err := range []error{local(syscall.EMFILE), local(syscall.ENFILE), local(syscall.ENOMEM), local(syscall.EACCES), iofs.ErrPermission, origin.ErrUnavailable} {
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

// The repair of content is named for faults of content alone.
func TestFaults_Repair(t *testing.T) {
	for kind, want := range map[string]bool{"shard": true, "xorb": true, "file": true, "": false} {
		var out bytes.Buffer
		f := NewFaults(&out, nil, false, func() {})
		f.Fault(verify.Fault{Path: "a", Kind: kind, Err: codec.Corrupt("shard", 0, "short")})
		if err := f.CloseStore(false, true, nil); !errors.Is(err, ui.ErrDamage) || strings.Contains(out.String(), "publish --checksum") != want {
			t.Errorf("%q: error %v, it prints %s", kind, err, out.String())
		}
	}
}

// A store is not called sound if a part of it was not checked.
func TestFaults_Unchecked(t *testing.T) {
	unreadable := errors.New("vref: permission denied")
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		f := NewFaults(&out, nil, asJSON, func() {})
		f.Xorb(1)
		if err := f.CloseStore(false, true, unreadable); !errors.Is(err, unreadable) {
			t.Errorf("JSON %v: error %v", asJSON, err)
		}
		if s := out.String(); !strings.Contains(s, `"sound": false`) && !strings.HasSuffix(s, ": a part was not checked, no fault in the rest\n") {
			t.Errorf("JSON %v: it prints %s", asJSON, s)
		}
	}
	var out bytes.Buffer
	f := NewFaults(&out, nil, false, func() {})
	f.Fault(verify.Fault{Path: "a", Err: codec.Corrupt("shard", 0, "short")})
	if err := f.CloseStore(false, false, unreadable); !errors.Is(err, ui.ErrDamage) || !strings.HasSuffix(out.String(), ": a part was not checked, 1 fault\n") {
		t.Errorf("with damage: error %v, it prints %s", err, out.String())
	}
}
