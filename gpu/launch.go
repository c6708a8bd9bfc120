package gpu

import (
	"fmt"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// A launcher puts plans into streams, for one thread at a time.
type launcher struct {
	session   *session
	functions map[entry]driver.Function
	params    driver.Params
}

// entry names a kernel.
type entry struct {
	module kernels.Module
	name   string
}

// addresses are those of a plan's buffers.
type addresses [kernels.Index + 1]driver.DevicePtr

func newLauncher(s *session) launcher {
	return launcher{session: s, functions: make(map[entry]driver.Function)}
}

// launch puts launches into a stream, in order.
func (c *launcher) launch(launches []kernels.Launch, at *addresses, stream driver.Stream) error {
	for i := range launches {
		l := &launches[i]
		f, err := c.function(l)
		if err != nil {
			return err
		}
		c.params.Reset()
		for _, a := range l.Args() {
			if a.Pointer {
				c.params.Ptr(at[a.Buffer].Offset(a.Offset))
			} else {
				c.params.Uint32(a.Value)
			}
		}
		shape := driver.Shape{Grid: driver.Dim{X: l.Grid[0], Y: l.Grid[1]}, Block: driver.Dim{X: l.Block}, Shared: l.Shared}
		if err := c.session.api.Launch(f, shape, &c.params, stream); err != nil {
			return fmt.Errorf("gpu: launch of %s: %w", l.Kernel, err)
		}
	}
	return nil
}

// function returns a launch's kernel, with leave for as much dynamic shared memory as a block may have.
func (c *launcher) function(l *kernels.Launch) (driver.Function, error) {
	key := entry{l.Module, l.Kernel}
	if f, ok := c.functions[key]; ok {
		return f, nil
	}
	s := c.session
	f, err := s.api.ModuleFunction(s.modules[l.Module], l.Kernel)
	if err != nil {
		return 0, err
	}
	info, err := s.api.FunctionInfo(f)
	if err != nil {
		return 0, err
	}
	if err := s.api.SetMaxDynamicShared(f, s.device.info.MaxSharedPerBlock-info.SharedBytes); err != nil {
		return 0, err
	}
	c.functions[key] = f
	return f, nil
}
