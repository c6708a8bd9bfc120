// Package admin answers, on an address of its own, those who run the proxy: is
// it alive, is it ready, what does it do, what does it cost; and shows a page that
// follows it live. It changes nothing.
// It knows neither TLS nor backends: what it tells it is given as functions.
package admin
