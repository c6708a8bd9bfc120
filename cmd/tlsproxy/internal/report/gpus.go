package report

// gpus are what was found of them.
type gpus struct {
	names     []string
	devices   []string // in words
	driver    string
	err       string // why none can be used; empty if some can
	simulated bool
}

// missing says why nothing is measured on GPUs; empty if it is.
func (g *gpus) missing() string {
	switch {
	case g.simulated:
		return "Not measured: the GPU of this machine is simulated, and how long the simulator takes says nothing about a GPU."
	case g.err != "":
		return "Not measured: this machine has no GPU that can be used (" + g.err + ")."
	}
	return ""
}

func (g *gpus) facts() []Fact {
	if g.err != "" {
		return []Fact{{"GPU", "none that can be used: " + g.err}}
	}
	all := []Fact{{"GPU driver", g.driver}}
	for _, device := range g.devices {
		all = append(all, Fact{"GPU", device})
	}
	return all
}
