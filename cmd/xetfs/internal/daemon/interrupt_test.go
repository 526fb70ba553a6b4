package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The first signal cancels the context with its Interruption, and stop ends the goroutine.
func TestWithSignals(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, stop := WithSignals(context.Background(), func(string) {}, func(int) { t.Error("the process ends") })
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	stop()
	var by Interruption
	if !errors.As(context.Cause(ctx), &by) || by.Status() != 130 {
		t.Errorf("the cause is %v, want an interruption with status 130", context.Cause(ctx))
	}
}

// The first signal cancels and the second one ends the process, except while a mount is ready.
func TestInterrupter(t *testing.T) {
	tests := []struct{ name, steps, want string }{
		{"one signal", "signal", "cancel"},
		{"two signals", "signal signal", "cancel exit:143"},
		{"two signals before the mount is ready", "onExit signal signal", "cancel tidy exit:143"},
		{"ready mount", "onExit pass signal signal", "mount mount"},
		{"Ctrl-C in a terminal with a background process", "child int signal", "cancel"},
		{"mount that has ended", "onExit pass signal release signal", "exit:143 mount"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var events []string
			event := func(e string) { events = append(events, e) }
			it := &interrupter{
				cancel: func(error) { event("cancel") },
				notice: func(string) {},
				exit:   func(status int) { event(fmt.Sprintf("exit:%d", status)) },
				limit:  time.Hour,
			}
			signals := make(chan os.Signal, 8)
			steps := map[string]func(){
				"signal":  func() { it.interrupt(syscall.SIGTERM) },
				"int":     func() { it.interrupt(syscall.SIGINT) },
				"child":   it.leaveKeyboard,
				"onExit":  func() { it.onExit(func() { event("tidy") }) },
				"pass":    func() { it.passTo(signals) },
				"release": it.release,
			}
			for _, step := range strings.Fields(tt.steps) {
				steps[step]()
			}
			for range len(signals) {
				<-signals
				event("mount")
			}
			if got := strings.Join(events, " "); got != tt.want {
				t.Errorf("events are %q, want %q", got, tt.want)
			}
		})
	}
}
