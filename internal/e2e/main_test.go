// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the path of the signpost that the tests run.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(upstreamVariable) != "" {
		serveUpstream()
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "signpost-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make directory for the binary:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "signpost")
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/signposthq/signpost/cmd/signpost")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build signpost: %v\n%s", err, out)
		return 1
	}
	// The tests wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, "set -parallel:", err)
		return 1
	}
	return m.Run()
}
