package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage returns the processor time that everybody, and this process with the children that it has waited for, has used so far, and the number of
// processors.
func usage() (all, ours time.Duration, processors int, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, 0, fmt.Errorf("machine: %w", err)
	}
	if all, processors, err = parseSystemStat(string(text)); err != nil {
		return 0, 0, 0, err
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0, 0, 0, fmt.Errorf("machine: getrusage: %w", err)
		}
		ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return all, ours, processors, nil
}

// parseSystemStat reads the lines "cpu" and "cpuN" of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq and
// steal, of which all but idle and iowait is work.
func parseSystemStat(text string) (busy time.Duration, processors int, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			processors++
			continue
		}
		for i, field := range fields[1:9] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("machine: /proc/stat: %w", err)
			}
			if i != 3 && i != 4 {
				busy += time.Duration(n) * (time.Second / userHZ)
			}
		}
	}
	if processors == 0 {
		return 0, 0, errors.New("machine: /proc/stat names no processor")
	}
	return busy, processors, nil
}
