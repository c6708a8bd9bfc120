package driver

import "os"

// MinimumVersion is the oldest driver that has all calls used here: CUDA 11.0, which is also the first with PTX 7.0.
const MinimumVersion = 11000

// implementation is how Open opens a library. Only init functions change it.
var implementation = struct {
	name string
	open func(path string) (API, error)
}{"purego", openLibrary}

// Use makes Open open libraries by another implementation of API than this package's own. open gets a path that is not empty; its
// errors are those of Open. It is for the packages beneath this one, which call it when they are initialised; no second one may.
func Use(name string, open func(path string) (API, error)) {
	if implementation.name != "purego" {
		panic("driver: " + implementation.name + " and " + name + " are both in the program: import one")
	}
	implementation.name, implementation.open = name, open
}

// Implementation names what Open uses: "purego", or the package that called Use.
func Implementation() string { return implementation.name }

// Open loads the driver library and initialises it. The path is the argument, or else the environment variable
// CTRUTLS_LIBCUDA, or else libcuda.so.1 as the system's loader finds it. Its error wraps ErrNoDriver if there is no
// such library, ErrTooOld if it lacks a call, ErrNoDevice if the driver has no device to offer.
func Open(path string) (API, error) {
	if path == "" {
		path = os.Getenv(LibraryEnv)
	}
	if path == "" {
		path = DefaultLibrary
	}
	return implementation.open(path)
}

// CheckVersion says whether a driver of this CUDA version, which has all the calls or has not, is recent enough. Implementations of API
// call it when they open a library. The error is a VersionError.
func CheckVersion(version int, complete bool) error {
	if complete && version >= MinimumVersion {
		return nil
	}
	return &VersionError{What: "the NVIDIA driver", Have: cudaName(version), Need: cudaName(MinimumVersion)}
}
