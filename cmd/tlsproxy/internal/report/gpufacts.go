//go:build !nogpu

package report

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// simulatorName begins the names of the simulator's devices.
const simulatorName = "ctrutls simulator"

func findGPUs() *gpus {
	api, err := driver.Open("")
	if errors.Is(err, driver.ErrNoDriver) {
		return &gpus{err: "there is no NVIDIA driver"}
	}
	if err != nil {
		return &gpus{err: err.Error()}
	}
	n, err := api.DeviceCount()
	if err != nil {
		return &gpus{err: err.Error()}
	}
	g := &gpus{driver: fmt.Sprintf("CUDA %d.%d, through %s", api.Version()/1000, api.Version()%1000/10, driver.Implementation())}
	if version, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		g.driver = strings.TrimSpace(string(version)) + ", " + g.driver
	}
	for i := range n {
		info, err := api.DeviceInfo(i)
		if err != nil {
			return &gpus{err: err.Error()}
		}
		g.simulated = g.simulated || strings.HasPrefix(info.Name, simulatorName)
		g.names = append(g.names, info.Name)
		g.devices = append(g.devices, fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors, %.0f GiB", info.Name, info.Major, info.Minor, info.Multiprocessors, float64(info.Memory)/(1<<30)))
	}
	if n == 0 {
		g.err = "the driver has no device"
	}
	return g
}

// kernelFacts name the kernels by what they are.
func kernelFacts() []Fact {
	hash, n := sha256.New(), 0
	for _, m := range modules() {
		text, err := m.PTX()
		if err != nil {
			return []Fact{{"Kernels", err.Error()}}
		}
		hash.Write(text)
		n++
	}
	return []Fact{{"Kernels", fmt.Sprintf("%d modules of embedded PTX, SHA-256 of all in order %x", n, hash.Sum(nil)[:8])}}
}

func modules() []kernels.Module {
	all := []kernels.Module{{Curve: kernels.Curve25519}, {Curve: kernels.P256}}
	for _, n := range []int{653, 761, 1277} {
		for _, m := range kernels.Multiplications() {
			all = append(all, kernels.Module{N: n, Multiplication: m})
		}
	}
	return all
}
