//go:build !soak

package interop

import "time"

// inARow is enough to use up the proxy's first keys and tickets; -tags soak
// makes it 20,000.
const inARow = 300

// trafficRequests is how many requests TestTraffic makes; -tags soak makes it a
// million.
const trafficRequests = 4000

// patience bounds every wait for another process. It is far above what any
// takes: a test that reaches it has hung.
const patience = 2 * time.Minute
