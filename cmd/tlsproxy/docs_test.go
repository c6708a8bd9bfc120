package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestExamplesOfDocs reads every example as a configuration, once the keys that each
// file needs are there.
func TestExamplesOfDocs(t *testing.T) {
	for name, least := range map[string]int{"routing.md": 9, "certificates.md": 9, "logging.md": 1, "limits.md": 3} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(examples) < least {
			t.Errorf("%s: %d examples", name, len(examples))
		}
		for _, example := range examples {
			file := "\n" + example[1]
			if !strings.Contains(file, "\ncertificates:") {
				file += "certificates: [{cert: cert.pem, key: key.pem}]\n"
			}
			if !strings.Contains(file, "\nbackends:") {
				file += "backends: {urls: http://127.0.0.1:8080}\n"
			}
			if _, err := config.Parse(name, []byte(file)); err != nil {
				t.Errorf("%v\n%s", err, file)
			}
		}
	}
}
