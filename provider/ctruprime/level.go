package ctruprime

// vectorLevel says which instructions a Scheme uses.
type vectorLevel int

const (
	portable vectorLevel = iota
	avx2
	avx512
)
