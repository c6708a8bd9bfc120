//go:build !race

package service

const manyHosts = 20_000
