//go:build !race

package certificates

const manyHosts = 20_000
