package tickets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// maxSecretsBytes bounds a file of secrets.
const maxSecretsBytes = 64 << 10

// LoadSecrets reads a file of secrets, one a line, in base64 or hexadecimal: what
// openssl rand -base64 32 prints. Empty lines and those that begin with # are
// passed over. Its errors hold nothing of the file.
func LoadSecrets(file string) ([][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretsBytes+1))
	defer clear(data)
	if err != nil {
		return nil, err
	}
	if len(data) > maxSecretsBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxSecretsBytes)
	}
	var secrets [][]byte
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret := decode(line)
		if len(secret) < MinSecretSize {
			return nil, fmt.Errorf("%s:%d: not a secret of at least %d bytes in base64 or hexadecimal; openssl rand -base64 32 makes one", file, number, MinSecretSize)
		}
		if secrets = append(secrets, secret); len(secrets) > MaxSecrets {
			return nil, fmt.Errorf("%s:%d: more than %d secrets", file, number, MaxSecrets)
		}
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret; openssl rand -base64 32 makes one", file)
	}
	return secrets, nil
}

// decode returns nil for what is neither.
func decode(line []byte) []byte {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(line)))
	if n, err := hex.Decode(out, line); err == nil {
		return out[:n]
	}
	if n, err := base64.StdEncoding.Decode(out, line); err == nil {
		return out[:n]
	}
	return nil
}
