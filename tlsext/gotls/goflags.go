package main

import (
	"fmt"
	"slices"
	"strings"
)

// splitGoflags splits a GOFLAGS value as the go command does: fields are
// separated by spaces, and quotes around a whole field keep spaces in it. There
// is no escaping.
func splitGoflags(s string) ([]string, error) {
	var fields []string
	for {
		s = strings.TrimLeft(s, " \t\n\r")
		if s == "" {
			return fields, nil
		}
		if quote := s[0]; quote == '\'' || quote == '"' {
			field, rest, closed := strings.Cut(s[1:], string(quote))
			if !closed {
				return nil, fmt.Errorf("GOFLAGS: a %c has no counterpart in %q", quote, s)
			}
			fields, s = append(fields, field), rest
			continue
		}
		end := strings.IndexAny(s, " \t\n\r")
		if end < 0 {
			end = len(s)
		}
		fields, s = append(fields, s[:end]), s[end:]
	}
}

// joinGoflags is the inverse of splitGoflags.
func joinGoflags(fields []string) (string, error) {
	quoted := slices.Clone(fields)
	for i, field := range fields {
		switch {
		case field != "" && !strings.ContainsAny(field, " \t\n\r'\""):
		case !strings.Contains(field, "'"):
			quoted[i] = "'" + field + "'"
		case !strings.Contains(field, `"`):
			quoted[i] = `"` + field + `"`
		default:
			return "", fmt.Errorf("GOFLAGS cannot hold %s: it has both kinds of quotes; set GOTLS_CACHE to a folder without", field)
		}
	}
	return strings.Join(quoted, " "), nil
}

// takeOverlay removes -overlay flags from the fields of GOFLAGS, and returns
// the last one's value: the one that the go command would obey.
func takeOverlay(fields []string) (overlay string, rest []string) {
	for _, field := range fields {
		if name, value, ok := flagNamed(field); ok && name == "overlay" {
			overlay = value
			continue
		}
		rest = append(rest, field)
	}
	return overlay, rest
}

// takeOverlayArg does the same for the arguments of a go command; the value may
// also be an argument of its own. Arguments of the program that go run starts,
// and those after -args or --, are not the go command's and stay.
func takeOverlayArg(args []string) (overlay string, rest []string) {
	command := ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, isFlag := flagNamed(arg)
		switch {
		case arg == "--" || name == "args",
			!isFlag && (command == "run" || command == "tool"):
			return overlay, append(rest, args[i:]...)
		case !isFlag:
			if command == "" {
				command = arg
			}
			rest = append(rest, arg)
		case name == "overlay":
			if !strings.Contains(arg, "=") && i+1 < len(args) {
				i++
				value = args[i]
			}
			overlay = value
		default:
			rest = append(rest, arg)
			if slices.Contains(flagsWithValue, name) && !strings.Contains(arg, "=") && i+1 < len(args) {
				i++
				rest = append(rest, args[i])
			}
		}
	}
	return overlay, rest
}

// flagsWithValue are the flags of the go command that take the next argument
// for their value; "go help build", "go help run".
var flagsWithValue = []string{
	"C", "p", "covermode", "coverpkg", "asmflags", "buildmode", "compiler", "exec",
	"gccgoflags", "gcflags", "installsuffix", "ldflags", "mod", "modfile", "o",
	"overlay", "pgo", "pkgdir", "tags", "toolexec",
}

// flagNamed splits -name, --name, -name=value or --name=value.
func flagNamed(arg string) (name, value string, isFlag bool) {
	name, isFlag = strings.CutPrefix(arg, "-")
	if !isFlag || name == "" {
		return "", "", false
	}
	name = strings.TrimPrefix(name, "-")
	name, value, _ = strings.Cut(name, "=")
	return name, value, true
}

// takeChdir returns the folder of a -C flag, which the go command takes in front
// of its command or as that command's first flag, and the other arguments.
func takeChdir(args []string) (dir string, rest []string) {
	for i := range min(2, len(args)) {
		name, value, isFlag := flagNamed(args[i])
		switch {
		case name == "C" && strings.Contains(args[i], "="):
			return value, slices.Delete(slices.Clone(args), i, i+1)
		case name == "C" && i+1 < len(args):
			return args[i+1], slices.Delete(slices.Clone(args), i, i+2)
		case isFlag:
			return "", args
		}
	}
	return "", args
}
