// Package completion completes tlsproxy's command line in bash, zsh and fish. The
// shells' scripts only ask the program, so what they offer is what the program's flags
// are; Candidates answers.
//
// It must not know the commands or flags: all of them are in kong's model.
package completion
