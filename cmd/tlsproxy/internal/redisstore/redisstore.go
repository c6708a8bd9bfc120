package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxValueBytes bounds what is taken from the server.
const maxValueBytes = 4096

// Options configure a Store.
type Options struct {
	URL      string // redis://HOST:PORT/DATABASE, rediss:// for TLS, or unix:///PATH
	Username string // "": none
	Password string // "": none
	Roots    *x509.CertPool
	Prefix   string // of all names
}

// Store is a connection to a server. Its methods may be called concurrently.
type Store struct {
	client *redis.Client
	prefix string
}

// silent keeps the client from logging by itself: its errors are returned.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

// Open returns a Store. It connects when it is used. Close it.
func Open(o Options) (*Store, error) {
	c, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	if o.Username != "" {
		c.Username = o.Username
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if c.TLSConfig != nil {
		c.TLSConfig.MinVersion, c.TLSConfig.RootCAs = tls.VersionTLS12, o.Roots
	}
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	c.MaxRetries, c.PoolSize = 1, 2
	c.DisableIdentity = true // CLIENT SETINFO, which old servers do not know
	return &Store{redis.NewClient(c), o.Prefix}, nil
}

// Put keeps value under name for a time, unless there is something already. It
// returns what is there then.
func (s *Store) Put(ctx context.Context, name string, value []byte, keep time.Duration) ([]byte, error) {
	put, err := s.client.SetNX(ctx, s.prefix+name, value, keep).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	if put {
		return value, nil
	}
	return s.Get(ctx, name)
}

// Get returns what is under name, nil if that is nothing.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	value, err := s.client.Get(ctx, s.prefix+name).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("redisstore: %w", err)
	case len(value) > maxValueBytes:
		return nil, fmt.Errorf("redisstore: the value of %s%s is larger than %d bytes", s.prefix, name, maxValueBytes)
	}
	return value, nil
}

// Close ends the connections.
func (s *Store) Close() error { return s.client.Close() }
