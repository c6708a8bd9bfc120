// Package kubernetes tests the manifests beside it: as kustomize renders them
// they are decoded by the API's own types, strictly, and fit together. No cluster is
// needed, and none sees them.
package kubernetes
