// Package config reads tlsproxy's configuration file.
//
// The file is YAML, read strictly: a key that is not known, a value of the
// wrong type or outside its range, a missing key and a contradiction between
// keys are all reported, each with file, line and column, and as many at once
// as can be found in one reading. The struct Config is the one list of keys:
// its tags hold each key's name and range, Default holds the values of the
// keys that a file leaves out.
//
// The package opens the configuration file and nothing else. Whether a
// certificate loads or an address can be listened on is found out by those who
// use them; Config.Errorf lets them blame the line that named it.
package config
