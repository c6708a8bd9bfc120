// Package proxyprotocol reads and writes the header by which a proxy tells the
// next one who its client is: HAProxy's PROXY protocol, versions 1 and 2
// (https://www.haproxy.org/download/3.4/doc/proxy-protocol.txt, sections 2.1 and
// 2.2). The bytes are the business of github.com/pires/go-proxyproto; what is
// here is whom to believe, how long to wait, and what to tell.
//
// It knows nothing of listeners, backends or configurations.
package proxyprotocol
