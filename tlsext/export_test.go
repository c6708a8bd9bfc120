package tlsext

// Engine lets the tests put themselves in a provider's place.
type Engine = engine

// RegisterEngine is Register with any engine.
func RegisterEngine(e Engine, opts ...Option) error { return register(e, opts) }
