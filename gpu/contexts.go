package gpu

import (
	"sync"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// A contextUse counts who uses a device's primary context, which all of the process shares: engines, and pinned memory handed to callers. A
// reset takes the context, pinned memory included, from all of them, and from others in the process that we do not know.
type contextUse struct {
	sync.Mutex
	users  int
	others bool // retained the context before our first user did
}

var contextUses struct {
	sync.Mutex
	of map[int]*contextUse // by device
}

func contextOf(device int) *contextUse {
	contextUses.Lock()
	defer contextUses.Unlock()
	if contextUses.of == nil {
		contextUses.of = make(map[int]*contextUse)
	}
	u := contextUses.of[device]
	if u == nil {
		u = new(contextUse)
		contextUses.of[device] = u
	}
	return u
}

// retainContext returns the device's primary context for a user, who gives it back by releaseContext.
func retainContext(api driver.API, device int) (driver.Context, error) {
	u := contextOf(device)
	u.Lock()
	defer u.Unlock()
	if u.users == 0 {
		active, err := api.PrimaryCtxActive(device)
		if err != nil {
			return 0, err
		}
		u.others = active
	}
	ctx, err := api.PrimaryCtxRetain(device)
	if err == nil {
		u.users++
	}
	return ctx, err
}

// releaseContext gives a context back. The last user tries again if the driver refuses: with him goes all of ours that is in the context.
func releaseContext(api driver.API, device int) error {
	u := contextOf(device)
	u.Lock()
	defer u.Unlock()
	u.users--
	err := api.PrimaryCtxRelease(device)
	if err != nil && u.users == 0 {
		err = api.PrimaryCtxRelease(device)
	}
	return err
}

// resetContext resets the context of a user who is the only one, and gives it back; alone says whether he is. Who has come into the context after us
// without this package is not seen.
func resetContext(api driver.API, device int) (alone bool, err error) {
	u := contextOf(device)
	u.Lock()
	defer u.Unlock()
	if u.users > 1 || u.others {
		return false, nil
	}
	err = api.PrimaryCtxReset(device)
	u.users--
	// The driver may or may not have forgotten the user with the rest.
	_ = api.PrimaryCtxRelease(device)
	return true, err
}
