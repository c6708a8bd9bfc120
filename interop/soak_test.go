//go:build soak

package interop

import "time"

// inARow is how many handshakes a soak makes, one after the other.
const inARow = 20_000

// trafficRequests is how many requests TestTraffic makes.
const trafficRequests = 1_000_000

// patience bounds every wait for another process, that for all of the soak's
// handshakes included.
const patience = time.Hour
