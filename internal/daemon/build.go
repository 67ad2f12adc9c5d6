// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in a release: -ldflags "-X .../internal/daemon.version=v1.2.3".
var version string

// Build says which binary this is.
type Build struct {
	Version  string `json:"version"`  // "v1.2.3", or "devel"
	Revision string `json:"revision"` // of the source; "unknown" outside a checkout
	Modified bool   `json:"modified"` // the source had changes on top of Revision
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as "linux/amd64"
}

// ReadBuild returns what the linker and the Go tool wrote into this binary.
func ReadBuild() Build {
	b := Build{Version: version, Revision: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// String returns one line for people.
func (b Build) String() string {
	revision := b.Revision
	if len(revision) > 12 {
		revision = revision[:12]
	}
	if b.Modified {
		revision += "+changes"
	}
	return fmt.Sprintf("signpost %s (%s, %s, %s)", b.Version, revision, b.Go, b.Platform)
}
