package backend

import (
	"context"
	"net/http"
)

// A Tracer is told of the tries of one request.
type Tracer interface {
	// Try is called before a request goes to a backend, retries others having failed
	// it, with the header that the backend gets and that it may change. What it
	// returns is called with the status of the answer, or with the error.
	Try(backend string, retries int, header http.Header) (ended func(status int, err error))
}

type tracerKey struct{}

// WithTracer returns a context for a request that t is to be told of.
func WithTracer(ctx context.Context, t Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// traced tells the request's Tracer, if it has one, of a try at b. It returns what is
// to be sent.
func (b *backend) traced(r *http.Request, retries int) (out *http.Request, ended func(*http.Response, error)) {
	t, ok := r.Context().Value(tracerKey{}).(Tracer)
	if !ok {
		return r, untraced
	}
	out = r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	end := t.Try(b.name, retries, out.Header)
	return out, func(response *http.Response, err error) {
		if err != nil {
			end(0, err)
			return
		}
		end(response.StatusCode, nil)
	}
}

func untraced(*http.Response, error) {}
