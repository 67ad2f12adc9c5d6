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
	if err := build(binary, "cmd/signpost"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The tests wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, "set -parallel:", err)
		return 1
	}
	return m.Run()
}

// build builds a program of this module, with the race detector if the tests have it.
func build(path, dir string) error {
	args := []string{"build", "-buildvcs=false", "-o", path}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/signposthq/signpost/"+dir)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", dir, err, out)
	}
	return nil
}
