// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCountsAndLinksSurviveRestartAndKill(t *testing.T) {
	dir := t.TempDir()
	env := []string{"SIGNPOST_BOUNDS_LINKS=12/365d 10 concurrent", "SIGNPOST_ADMIN_TOKEN="} // the token is kept
	first := serve(t, dir, env)
	if first.Link == "" {
		t.Fatal("the first start showed no link")
	}
	l := first.Link
	take := func(s *running, n, want int) {
		t.Helper()
		for range n {
			wantAnswer(t, "take", want, "GET", s.Door+"/read/welcome", l, "")
		}
	}
	take(first, 5, 200)
	for range 3 {
		wantAnswer(t, "expensive", 200, "POST", first.API+"/v1/take", "", fmt.Sprintf(`{"link":%q,"expensive":true}`, l))
	}
	tokenFile := filepath.Join(dir, first.AdminTokenFile)
	kept, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(tokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("admin token: mode %v, %v; want one that the owner alone can read", info.Mode(), err)
	}
	if err := os.Chmod(tokenFile, 0o644); err != nil { // as a restored backup has it
		t.Fatal(err)
	}
	eventually(t, "all is durable", func() bool {
		_, text := ask("GET", first.Admin+"/readyz", "", "")
		return text == "ok\n"
	})
	first.signal(t, syscall.SIGKILL)
	first.exit(t)

	second := serve(t, dir, env)
	if second.Link != "" {
		t.Error("the second start minted a link")
	}
	if info, err := os.Stat(tokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("admin token after a restart: mode %v, %v", info.Mode(), err)
	}
	wantAnswer(t, "the token is the same", 200, "GET", second.Admin+"/v1/links", strings.TrimSpace(string(kept)), "")
	if got := wantAnswer(t, "peek", 200, "POST", second.API+"/v1/peek", "", fmt.Sprintf(`{"link":%q,"expensive":true}`, l)); !strings.Contains(got, `"used":8,`) || !strings.Contains(got, `"inUse":0`) {
		t.Errorf("after kill -9: %s; want 8 used, and no lease", got)
	}
	take(second, 2, 200)
	second.signal(t, syscall.SIGTERM)
	if code := second.exit(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM\n%s", code, second.log)
	}

	third := serve(t, dir, env)
	take(third, 2, 200)
	take(third, 1, 429)
	if log := third.log.String(); strings.Contains(log, l) {
		t.Error("the log holds the link")
	}
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), l) {
			t.Errorf("%s holds the link", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestASecondDaemonOnOneDirectory(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, dir, nil)
	args := []string{"serve", "--door", "127.0.0.1:0", "--api", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	second := spawn(t, dir, nil, args...)
	if code := second.exit(t); code != 1 || !strings.Contains(second.log.String(), "signpost-data") || !strings.Contains(second.log.String(), "in use by another process") || !strings.Contains(second.log.String(), "; stop that one, or choose another directory with --data") {
		t.Errorf("exit code %d, says %q; want 1, and the directory that is in use", code, second.log)
	}
	wantAnswer(t, "the first one is not disturbed", 200, "GET", first.Door+"/read/welcome", first.Link, "")
	first.signal(t, syscall.SIGKILL)
	first.exit(t)
	serve(t, dir, nil) // no lock is left behind
}

func TestADamagedStore(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, dir, nil)
	first.signal(t, syscall.SIGTERM)
	first.exit(t)
	tables, err := filepath.Glob(filepath.Join(dir, "signpost-data", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %q, %v", tables, err)
	}
	if err := os.Truncate(tables[0], 10); err != nil {
		t.Fatal(err)
	}
	second := spawn(t, dir, nil, "serve", "--door", "127.0.0.1:0", "--api", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if code := second.exit(t); code != 1 || !strings.Contains(second.log.String(), filepath.Base(tables[0])) || !strings.Contains(second.log.String(), "; restore it, or move the directory away") {
		t.Errorf("exit code %d, says %q; want 1, the damaged file, and what to do", code, second.log)
	}
}

// The first start in front of a service, with the commands that its greeting names.
func TestTheCommandLineFindsTheDaemon(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, []string{"SIGNPOST_ADMIN_TOKEN="})
	c := spawn(t, dir, nil, "link", "list", "--admin", strings.TrimPrefix(s.Admin, "http://"))
	var out strings.Builder
	for {
		line, err := c.stdout.ReadString('\n')
		out.WriteString(line)
		if err != nil {
			break
		}
	}
	if code := c.exit(t); code != 0 || !strings.Contains(out.String(), "first") {
		t.Errorf("signpost link list: exit code %d, %q, %s; want the first link", code, out.String(), c.log)
	}
}
