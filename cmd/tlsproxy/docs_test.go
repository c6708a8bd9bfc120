package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestRoutingExamples reads every example of docs/routing.md as a configuration,
// once the keys that each file needs are there.
func TestRoutingExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "routing.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 9 {
		t.Errorf("%d examples", len(examples))
	}
	for _, example := range examples {
		file := "certificates: [{cert: cert.pem, key: key.pem}]\n" + example[1]
		if !strings.Contains(file, "\nbackends:") {
			file += "backends: {urls: http://127.0.0.1:8080}\n"
		}
		if _, err := config.Parse("routing.md", []byte(file)); err != nil {
			t.Errorf("%v\n%s", err, file)
		}
	}
}
