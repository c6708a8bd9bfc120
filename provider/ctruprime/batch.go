package ctruprime

import "fmt"

// MaxKeyGroup is how many keys GenerateKeysBytes generates with one inversion.
const MaxKeyGroup = 32

// GenerateKeysBytes is GenerateKeyBytes for many keys: seeds[i] makes sks[i].
func (s *Scheme) GenerateKeysBytes(sks, seeds [][]byte) error {
	if len(sks) != len(seeds) {
		return fmt.Errorf("ctruprime: %d seeds for %d keys", len(seeds), len(sks))
	}
	for i := range sks {
		if err := s.GenerateKeyBytes(sks[i], seeds[i]); err != nil {
			return err
		}
	}
	return nil
}
