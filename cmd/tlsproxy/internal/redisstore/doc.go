// Package redisstore keeps small values in a server that speaks Redis's protocol:
// Redis, Valkey, KeyDB and others. Several proxies share what is there.
//
// It knows nothing of the values, and is a tickets.Store.
package redisstore
