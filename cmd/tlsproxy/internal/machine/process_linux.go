package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPUTime returns the processor time that a process of this machine has used so
// far, its own and the kernel's on its behalf, ended threads included, children not. It
// reads the process's clock (clock_getcpuclockid(3)) and, where the kernel does not give
// that of another process, /proc/PID/stat, which counts in hundredths of a second.
func ProcessCPUTime(pid int) (time.Duration, error) {
	if pid < 1 {
		return 0, fmt.Errorf("machine: %d is no process", pid)
	}
	const schedClock = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &t); err == nil {
		return time.Duration(t.Nano()), nil
	}
	return processStat(pid)
}

// userHZ is in what /proc counts: sysconf(_SC_CLK_TCK), 100 on every architecture that
// Go runs on.
const userHZ = 100

// processStat reads user and system time from /proc/PID/stat (proc_pid_stat(5)).
func processStat(pid int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("machine: there is no process %d on this machine", pid)
	}
	if err != nil {
		return 0, fmt.Errorf("machine: the processor time of process %d: %w", pid, err)
	}
	return parseStat(string(text))
}

// parseStat adds utime and stime, the 14th and 15th fields. The second, the program's
// name in parentheses, can hold anything.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("machine: /proc/PID/stat says %q", text)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("machine: /proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / userHZ), nil
}

// kernel returns the system's release, "6.12.0".
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}
