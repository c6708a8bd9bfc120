module github.com/ctrutls/ctrutls

go 1.26.0

tool github.com/ctrutls/ctrutls/tlsext/gotls

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	github.com/cloudflare/circl v1.6.5 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
