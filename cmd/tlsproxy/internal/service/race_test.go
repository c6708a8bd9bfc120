//go:build race

package service

// manyHosts is fewer than without the race detector, which makes them slow.
const manyHosts = 2000
