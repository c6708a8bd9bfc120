// Package report runs the project's measurements on this machine and writes what they gave as one page of HTML that needs nothing else, and as
// Markdown: tables, plots, the machine, versions and commands.
//
// A part of the report measures its rows side by side in rounds. What is kept of a row is the value of each round; medians, spreads and ratios
// are computed from those, round by round, and the page holds them as JSON. A part that cannot be measured here says why; a row that
// fails is an error in its table, and of the whole.
//
// The package must not be needed by anything that serves requests. What is timed, and how, is in internal/bench and in package demo.
package report
