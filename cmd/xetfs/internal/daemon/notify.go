package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/xetfs/xetfs/fs"
)

// notifySocket is the variable with the address of the socket of systemd.
const notifySocket = "NOTIFY_SOCKET"

// A Notifier reports the state of this process to systemd. A nil Notifier does nothing.
type Notifier struct {
	socket string
	period time.Duration // of the watchdog; 0: none
	log    *slog.Logger  // set by Run

	mu     sync.Mutex
	failed bool // a broken socket was logged; guarded by mu
}

// NewNotifier returns the Notifier for the address of a socket; "": nil. It removes the variables
// of systemd from the environment, so that no child reports for this process.
func NewNotifier(socket string) *Notifier {
	if socket == "" {
		return nil
	}
	n := &Notifier{socket: socket}
	n.period, _ = sd.SdWatchdogEnabled(true) // a wrong value means no watchdog
	_ = os.Unsetenv(notifySocket)
	return n
}

// notify sends some states in one message. The library takes the address from the environment,
// and removes it afterwards.
func (n *Notifier) notify(states ...string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := os.Setenv(notifySocket, n.socket)
	if err == nil {
		_, err = sd.SdNotify(true, strings.Join(states, "\n"))
	}
	if err != nil && !n.failed && n.log != nil {
		n.failed = true
		n.log.Warn("systemd gets no reports", "event", "notify_failed", "err", err)
	}
}

// status returns the state with a text for systemctl status.
func status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// watch sends a sign of life while the mount answers, until ctx ends. It returns at once without
// a watchdog.
func (n *Notifier) watch(ctx context.Context, server *fs.Server) {
	if n == nil || n.period <= 0 {
		return
	}
	w := server.NewWatch()
	defer w.Close()
	ticks := time.NewTicker(n.period / 3)
	defer ticks.Stop()
	for {
		if w.IsAnswering(n.period / 3) {
			n.notify(sd.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
