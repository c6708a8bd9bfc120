//go:build race

package interop

// raceEnabled says that the servers under test are built with the race
// detector, as this test is.
const raceEnabled = true
