// Gotls runs the go command with the hook of github.com/ctrutls/ctrutls/tlsext in
// crypto/tls.
//
// From any module that requires github.com/ctrutls/ctrutls:
//
//	go get -tool github.com/ctrutls/ctrutls/tlsext/gotls
//	go tool gotls build ./...
//
// Likewise run, test, vet, install, list, generate, tool: every command of go. The
// arguments, the exit status, the streams and Ctrl-C are the go command's.
//
//	go tool gotls env        prints what a shell has to set for the same: eval "$(go tool gotls env)"
//	go tool gotls env -json  the same for an editor or a CI job
//	go tool gotls env NAME   one of GOFLAGS, GOROOT, GOTOOLCHAIN, PATH
//	go tool gotls check      tells whether this toolchain can have the hook
//	go tool gotls path       writes the overlay and prints where it is
//
// Variables may come before the command. To build for another system, name it
// there: in front of go tool, GOOS and GOARCH would make the go command build gotls
// itself for that system.
//
//	go tool gotls GOOS=linux GOARCH=arm64 build ./...
//
// Within github.com/ctrutls/ctrutls itself, go run ./tlsext/gotls does the same.
//
// # How it works
//
// Gotls parses the crypto/tls of the toolchain that the go command would use, and
// inserts calls at a few places, its anchors. Each has to match exactly once, or
// gotls says which did not and stops. Nothing is removed, and no line changes its
// number. The patched files, one more that holds the hook, and an overlay that
// names them (see -overlay in go help build) are written into the user's cache
// folder, under a name that is a hash of their content; then the go command runs
// with -overlay in GOFLAGS. GOROOT is never written to, and security fixes of
// crypto/tls arrive with the toolchain as ever. Without a registered provider the
// patched package behaves as the original: its own tests pass and fail alike.
//
// Go 1.26 and 1.27 are known. An older one cannot be patched, and a newer one only
// with GOTLS_UNTESTED_GO=1.
//
// # Toolchains
//
// The toolchain is the one that the go command would use in this folder, or that
// of -C: a go.mod's toolchain line, GOTOOLCHAIN and GOROOT work. As an overlay is
// for one GOROOT, gotls pins it: GOTOOLCHAIN=local for what it runs. A command that
// would switch to another toolchain then fails and says so, rather than to build
// without the hook.
//
// The go command allows no overlay of files beneath GOMODCACHE, where the
// toolchains live that it downloads. For these, gotls makes a symbolic link in its
// cache and sets GOROOT to that.
//
// # Environment
//
//	GOFLAGS            kept; -overlay is appended
//	GOTLS_CACHE        the folder to write to, in place of ctrutls/gotls in the
//	                   user's cache folder; it may be removed at any time
//	GOTLS_UNTESTED_GO  1: patch a Go that is newer than this gotls knows
//
// An -overlay of the user's own, in GOFLAGS or as an argument, is merged with that
// of gotls. It must leave crypto/tls alone.
//
// # Limits
//
// Go version -m does not record an overlay: whether a program has the hook is what
// tlsext.Available tells at run time. Where the output of gotls env is in force and
// GOROOT is changed by hand, the go command ignores the overlay without a word.
package main
