#!/bin/bash
# Writes the assembly again and fails if it differs from what is checked in.
set -euo pipefail
cd "$(dirname "$0")/.."
${GO:-go} -C provider/ctruprime/asm vet ./...
${GO:-go} generate ./provider/ctruprime/internal/vec
if ! git diff --exit-code -- provider/ctruprime/internal/vec; then
	echo 'asm: the assembly is not what provider/ctruprime/asm writes' >&2
	exit 1
fi
