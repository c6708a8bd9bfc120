package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Machine names what a measurement ran on.
type Machine struct {
	CPU   string `json:"cpu"`   // the model, or the architecture if it is not known
	Cores int    `json:"cores"` // that this process may use
	OS    string `json:"os"`    // "linux/amd64"
	Go    string `json:"go"`    // "go1.26.8"
	// Kernel is the system's release, empty if it is not known.
	Kernel string `json:"kernel,omitempty"`
}

// This returns the machine that the process runs on.
func This() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Kernel: kernel()}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		if model := modelName(f); model != "" {
			m.CPU = model
		}
	}
	return m
}

// String is one line for the head of a report.
func (m Machine) String() string {
	system := m.OS
	if m.Kernel != "" {
		system += " " + m.Kernel
	}
	return fmt.Sprintf("%s, %s, %s, cores: %d", m.Go, system, m.CPU, m.Cores)
}

// modelName finds the first processor's name in Linux's /proc/cpuinfo.
func modelName(cpuinfo io.Reader) string {
	lines := bufio.NewScanner(cpuinfo)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}
