package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier tells the manager that the environment names (NOTIFY_SOCKET). Its
// methods may be called concurrently. What the manager cannot be told is logged.
type Notifier struct{ Log *slog.Logger }

func (n Notifier) send(state string) {
	if name := os.Getenv("NOTIFY_SOCKET"); name != "" {
		if err := sendTo(name, state); err != nil {
			n.Log.Warn("the service manager could not be told", "state", state, "err", err)
		}
	}
}

// sendTimeout bounds how long a manager that does not read holds the process up.
const sendTimeout = time.Second

// sendTo is daemon.SdNotify in bounded time.
func sendTo(name, state string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// Ready says that the process serves, or does so again after Reloading. The text
// is what systemctl status shows.
func (n Notifier) Ready(text string) { n.send(daemon.SdNotifyReady + "\nSTATUS=" + text) }

// Status changes that text.
func (n Notifier) Status(text string) { n.send("STATUS=" + text) }

// Reloading says that the process reads its configuration, until Ready.
func (n Notifier) Reloading() {
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping says that the process is about to end.
func (n Notifier) Stopping(text string) { n.send(daemon.SdNotifyStopping + "\nSTATUS=" + text) }

// MainProcess says that another process, which is to call Ready then, is the
// service's from now on.
func (n Notifier) MainProcess(pid int) { n.send(fmt.Sprint("MAINPID=", pid)) }

// Watch keeps the manager's watchdog content until ctx is done, if there is one:
// twice in its time it is told that the process is alive, once alive has
// returned.
func (n Notifier) Watch(ctx context.Context, alive func()) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.Log.Warn("the service manager's watchdog", "err", err)
	}
	if within <= 0 {
		return
	}
	tick := time.NewTicker(max(within/2, time.Millisecond))
	defer tick.Stop()
	for {
		alive()
		n.send(daemon.SdNotifyWatchdog)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
