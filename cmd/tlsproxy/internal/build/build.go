package build

import "runtime/debug"

// Version is that of the module, "(devel)" in a build from a work tree.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Commit is the revision that the go command noted, followed by " with changes" if
// there were any; "unknown" if it noted none.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch revision := settings["vcs.revision"]; {
	case revision == "":
		return "unknown"
	case settings["vcs.modified"] == "true":
		return revision + " with changes"
	default:
		return revision
	}
}
