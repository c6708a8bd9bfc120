// Package routing finds what serves a connection, by the server name that its
// client asks for, and what serves a request on it, by its path.
//
// It decides by what it is told and looks at no connection and no message.
package routing
