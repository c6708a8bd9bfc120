// Package manual writes tlsproxy's manual pages, tlsproxy(1) and tlsproxy.yaml(5), in
// roff with the man macros: the one from kong's model of the command line, the other
// from the annotated example of the configuration, so that neither can lack a flag or
// a key.
//
// It must not know what the flags and keys are.
package manual
