//go:build nogpu

package service

import "errors"

func lacksGPUs(string, []int) error { return errors.New("this program was built without GPUs") }
