// Package systemd tells the service manager how the process is, as sd_notify(3)
// describes it. Where there is none it does nothing.
//
// It knows nothing of what the process does.
package systemd
