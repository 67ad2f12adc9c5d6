// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// blocks returns the lines of the fenced blocks of a page that are in a language.
func blocks(page, language string) (blocks [][]string) {
	fences := strings.Split(page, "```")
	for i := 1; i < len(fences); i += 2 {
		if text, ok := strings.CutPrefix(fences[i], language+"\n"); ok {
			blocks = append(blocks, strings.Split(strings.TrimSpace(text), "\n"))
		}
	}
	return blocks
}

// readme is what the commands of the README are run with.
type readme struct {
	d        *daemon
	settings []string
	linkID   string // of the link that the last "link mint" printed
}

var shownID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

// run runs a line in a shell as somebody would who reads it, against this daemon, and returns what it printed.
func (r *readme) run(t *testing.T, line string) string {
	t.Helper()
	cmd := signpost(t, r.settings)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.NewReplacer(
		"bin/signpost", binary,
		"http://127.0.0.1:8080", r.d.Door,
		"http://127.0.0.1:8081", r.d.API,
		"sp_…", r.d.Link,
		"curl ", "curl -sS ",
	).Replace(shownID.ReplaceAllString(line, r.linkID))}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("README.md: %s\n%v: %s", line, err, out)
	}
	return string(out)
}

// Every command of the README works in the order of the page.
func TestLinesOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl in PATH; scripts/needs curl installs it")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	const serveLine = "bin/signpost serve --upstream http://127.0.0.1:3000"
	if strings.Count(page, serveLine+"\n") != 1 {
		t.Fatalf("README.md does not say once: %s", serveLine)
	}
	up := startUpstream(t)
	d := &daemon{process: spawn(t, signpost(t, nil, "serve", "--upstream", up.URL, "--json"))}
	if err := json.Unmarshal([]byte(d.firstLine(t)), d); err != nil {
		t.Fatal(err)
	}
	r := &readme{d: d, settings: []string{"ADMIN=" + strings.TrimPrefix(d.Admin, "http://")}}

	ran := 0
	for _, block := range blocks(page, "sh") {
		for _, line := range block {
			line, comment, _ := strings.Cut(line, "   ")
			switch {
			case line == serveLine, strings.HasPrefix(line, "make "), strings.HasPrefix(line, "go build "):
				continue // done above, or by whoever runs this
			case strings.Contains(line, " --mcp http"):
				continue // in front of a server of the reader's; mcp_test.go has one of its own
			case strings.Contains(line, " --store redis://"):
				continue // on a server of the reader's; TestFleetSharesOneCount has one of its own
			case !strings.HasPrefix(line, "bin/signpost ") && !strings.HasPrefix(line, "curl "):
				t.Errorf("README.md has a command that is not tried: %s %s", line, comment)
				continue
			}
			ran++
			out := r.run(t, line)
			switch {
			case strings.HasPrefix(line, "bin/signpost link mint "):
				if r.linkID = shownID.FindString(out); r.linkID == "" {
					t.Errorf("%s printed no ID: %s", line, out)
				}
			case strings.HasPrefix(line, "bin/signpost link list"), strings.HasPrefix(line, "bin/signpost link revoke "):
				if !strings.Contains(out, r.linkID) {
					t.Errorf("%s printed nothing of %s: %s", line, r.linkID, out)
				}
			case strings.HasPrefix(line, "bin/signpost key inspect "):
				if !strings.Contains(out, "minute") || !strings.Contains(out, "hour") {
					t.Errorf("%s did not print every window: %s", line, out)
				}
			case strings.HasPrefix(line, "curl "):
				if !strings.Contains(out, `"admitted":true`) {
					t.Errorf("%s printed %s", line, out)
				}
			}
		}
	}
	for _, block := range blocks(page, "console") {
		out := ""
		for range 3 { // what it shows happens within a minute
			begun := time.Now().Truncate(time.Minute)
			if out = r.session(t, block); time.Now().Truncate(time.Minute).Equal(begun) {
				break
			}
		}
		for _, shown := range block {
			if head.MatchString(shown) && !strings.Contains(out, head.FindString(shown)) {
				t.Errorf("README.md shows %q, and its commands printed:\n%s", shown, out)
			}
		}
		ran++
	}
	if ran < 7 {
		t.Errorf("%d commands and sessions of README.md were tried, want 7", ran)
	}
}

// head is what two answers to the same request have in common: the status line, or the name of a field.
var head = regexp.MustCompile(`^(HTTP/1.1 .*|[A-Z][A-Za-z-]+: )`)

// session runs the commands of a console, and returns all that they printed.
func (r *readme) session(t *testing.T, block []string) string {
	t.Helper()
	var out strings.Builder
	for _, line := range block {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out.WriteString(r.run(t, command))
		}
	}
	if out.Len() == 0 {
		t.Errorf("README.md: a console without a command: %q", block)
	}
	return out.String()
}
