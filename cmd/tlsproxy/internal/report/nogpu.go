//go:build nogpu

package report

import "context"

const leftOut = "the engine for GPUs was left out of this binary by -tags nogpu"

func findGPUs() *gpus { return &gpus{err: leftOut} }

func kernelFacts() []Fact { return nil }

var (
	gpuPart     = part{id: "gpu", title: gpuTitle, about: gpuAbout, missing: (*gpus).missing, measure: unreachable}
	productPart = part{id: "products", title: productTitle, about: productAbout, missing: (*gpus).missing, measure: unreachable}
)

// unreachable is never called: missing says so before.
func unreachable(context.Context, *measurement) error { panic("report: " + leftOut) }
