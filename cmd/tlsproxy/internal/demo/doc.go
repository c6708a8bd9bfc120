// Package demo shows a proxy at work on one machine: it starts a backend and a
// proxy in this process and a load client in another, has the client make real
// requests and then full handshakes with several groups in turn, and reports
// rates, latencies and the server's processor time side by side.
//
// Figures of different runs do not compare, as machines are shared and clocks
// change: the ratios within a run do.
package demo
