package admin

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

// contentPolicy lets the page load what this listener serves, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the live page and its two files.
func page() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic("admin: " + err.Error()) // the name in go:embed is another
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		server.ServeHTTP(w, r)
	})
}

const (
	eventEvery = time.Second
	maxFollow  = 16 // clients of /events
)

// events sends what Live returns once a second, as server-sent events (the HTML
// standard, section 9.2), until the client leaves or the Server is closed.
func (s *Server) events(live func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.following <- struct{}{}:
			defer func() { <-s.following }()
		default:
			w.Header().Set("Retry-After", "10")
			http.Error(w, fmt.Sprintf("%d clients follow already; close a page.", maxFollow), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		tick := time.NewTicker(eventEvery)
		defer tick.Stop()
		for {
			data, err := json.Marshal(live())
			if err != nil {
				s.log.Error("admin: the live page's figures", "err", err)
				return
			}
			control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			case <-s.closing:
				return
			}
		}
	}
}

// load starts the demonstration's load.
func (o *Options) load(w http.ResponseWriter, r *http.Request) {
	if err := o.DemoLoad(); err != nil {
		text(w, http.StatusConflict, err.Error())
		return
	}
	text(w, http.StatusAccepted, "started")
}
