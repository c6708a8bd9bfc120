package driver

import (
	"bytes"
	"fmt"
	"strconv"
)

// ptxHeader is what a PTX text says it needs.
type ptxHeader struct {
	major, minor int // of the PTX instruction set
	target       int // 80 for sm_80
}

// parsePTXHeader reads the .version and .target directives, which open every PTX text.
func parsePTXHeader(ptx []byte) (ptxHeader, error) {
	var h ptxHeader
	for line := range bytes.Lines(ptx) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch string(fields[0]) {
		case ".version":
			major, minor, _ := bytes.Cut(fields[1], []byte("."))
			h.major, _ = strconv.Atoi(string(major))
			h.minor, _ = strconv.Atoi(string(minor))
		case ".target":
			// "sm_80", "sm_90a,": letters and options do not matter here.
			digits := bytes.TrimPrefix(fields[1], []byte("sm_"))
			n := 0
			for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
				n++
			}
			h.target, _ = strconv.Atoi(string(digits[:n]))
		}
		if h.major != 0 && h.target != 0 {
			return h, nil
		}
	}
	return h, fmt.Errorf("driver: not PTX: no .version and .target directives")
}

// cudaVersion returns the first CUDA version whose driver reads this PTX, as 1000 major + 10 minor (PTX ISA, "Release
// Notes"): 7.x came with CUDA 11.x, 8.x with 12.x, 9.x with 13.x.
func (h ptxHeader) cudaVersion() int {
	if h.major < 7 {
		return 10020
	}
	return (h.major+4)*1000 + h.minor*10
}

// CheckPTX says whether a driver of this CUDA version, and a device of this compute capability, can run a PTX text. Implementations of
// API call it before they load one. The error is a VersionError, unless the text is not PTX.
func CheckPTX(ptx []byte, version, major, minor int) error {
	h, err := parsePTXHeader(ptx)
	if err != nil {
		return err
	}
	return h.check(version, major, minor)
}

// check returns a VersionError if a driver of this CUDA version, or a device of this compute capability, cannot run the PTX.
func (h ptxHeader) check(driverVersion, major, minor int) error {
	if need := h.cudaVersion(); driverVersion < need {
		return &VersionError{What: "the NVIDIA driver", Have: cudaName(driverVersion), Need: cudaName(need)}
	}
	if major*10+minor < h.target {
		return &VersionError{
			What: "the device",
			Have: fmt.Sprintf("compute capability %d.%d", major, minor),
			Need: fmt.Sprintf("%d.%d", h.target/10, h.target%10),
		}
	}
	return nil
}

func cudaName(version int) string { return fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10) }
