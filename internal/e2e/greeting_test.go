// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/redistest"
)

// pasted runs the lines of a greeting that are meant to be pasted, in one shell, as somebody would, and returns what
// each printed.
func pasted(t *testing.T, greeting, prefix string, more ...string) []string {
	t.Helper()
	var script strings.Builder
	lines := 0
	for line := range strings.Lines(greeting) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, prefix) {
			script.WriteString(line + " && echo '-- end --' || exit\n")
			lines++
		}
	}
	for _, line := range more {
		script.WriteString(line + " && echo '-- end --' || exit\n")
		lines++
	}
	cmd := exec.Command("sh", "-c", script.String())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	printed := strings.Split(strings.TrimSuffix(string(out), "-- end --\n"), "-- end --\n")
	if err != nil || len(printed) != lines {
		t.Fatalf("of %d pasted lines %d worked: %v\n%s\n%s\n%s", lines, len(printed), err, script.String(), out, stderr.String())
	}
	return printed
}

func TestLinesOfTheGreetingWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl in PATH; scripts/needs curl installs it")
	}
	up := startUpstream(t)
	for _, tt := range []struct {
		name     string
		settings []string
		want     [][]string // what is in the output of each line
	}{
		{"sample", nil, [][]string{
			{"HTTP/1.1 200 OK", "# Welcome", "RateLimit: "},
			{`{"note":"shopping"}`},
			{`"shopping"`},
			{`"limits":`, `"maxRequests":600`},
		}},
		{"mcp", []string{"MCP=" + up.URL + "/mcp"}, [][]string{
			{"HTTP/1.1 200 OK", `"id":1,"result":{`},
			{`"limits":`, `"maxRequests":600`},
		}},
		{"upstream", []string{"UPSTREAM=" + up.URL}, [][]string{
			{"HTTP/1.1 200 OK", "RateLimit: "},
			{`"limits":`, `"maxRequests":600`},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := spawn(t, signpost(t, tt.settings, "serve"))
			greeting := greetingOf(t, d)
			printed := pasted(t, greeting, "curl ")
			if len(printed) != len(tt.want) {
				t.Fatalf("%d curl lines in the greeting, want %d:\n%s", len(printed), len(tt.want), greeting)
			}
			for i, texts := range tt.want {
				for _, text := range texts {
					if !strings.Contains(printed[i], text) {
						t.Errorf("line %d printed %q, want %q in it", i+1, printed[i], text)
					}
				}
			}
		})
	}
}

// The token that is shown where it is kept nowhere works in the shell that the line was pasted into.
func TestTokenOfTheGreetingWorks(t *testing.T) {
	t.Parallel()
	d := spawn(t, signpost(t, []string{"ADMIN_TOKEN="}, "serve"))
	greeting := greetingOf(t, d)
	_, admin, found := strings.Cut(greeting, "admin  ")
	if !found {
		t.Fatalf("no admin address in %q", greeting)
	}
	admin, _, _ = strings.Cut(admin, "\n")
	printed := pasted(t, greeting, "export ", binary+" link list --admin "+admin)
	if !strings.Contains(printed[len(printed)-1], "first") {
		t.Errorf("link list printed %q, want the first link", printed)
	}
}

// The command of a later start mints a link in the shell that it was pasted into, wherever signpost is.
func TestMintLineOfALaterGreetingWorks(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "where it's kept")
	settings := []string{"STORE=disk", "DATA=" + data, "ADMIN_TOKEN=", "UPSTREAM=http://127.0.0.1:1"}
	first := spawn(t, signpost(t, settings, "serve"))
	greetingOf(t, first)
	first.signal(t, syscall.SIGTERM)
	first.wait(t)
	later := spawn(t, signpost(t, settings, "serve"))
	mint := binary + " link mint"
	eventually(t, "the greeting has the command", func() bool {
		_, line, found := strings.Cut(later.stdout.String(), mint)
		return found && strings.HasSuffix(line, "\n")
	})
	if printed := pasted(t, later.stdout.String(), mint); len(printed) != 1 || !strings.Contains(printed[0], "Link  ") {
		t.Errorf("printed %q, want one new link", printed)
	}
}

// A start that cannot read links says why it shows none, and so does one that forgot its password.
func TestGreetingOfAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	d := spawn(t, signpost(t, []string{"STORE=redis://127.0.0.1:1"}, "serve"))
	eventually(t, "the greeting has the command", func() bool { return strings.Contains(d.stdout.String(), binary+" link mint") })
	if greeting := d.stdout.String(); !strings.Contains(greeting, "The store does not answer yet.") || strings.Contains(greeting, "earlier start") {
		t.Errorf("the greeting is\n%s", greeting)
	}
	url := strings.Replace(restricted(t).URL(), "redis://", "redis://signpost@", 1)
	_, sentinels := redistest.Sentinels(t, time.Minute)
	for _, s := range sentinels {
		s.Do("ACL", "SETUSER", "default", "resetpass", ">of-sentinels")
	}
	behind := sentinels[0].URL() + "?master_set=" + redistest.MasterSet
	for _, tt := range []struct {
		settings []string
		want     string
	}{
		{[]string{"STORE=" + url}, "SIGNPOST_STORE_PASSWORD is not set"},
		{[]string{"STORE=" + behind, "STORE_PASSWORD=secret"}, "SIGNPOST_SENTINEL_PASSWORD is not set"},
		{[]string{"STORE=" + behind}, "SIGNPOST_STORE_PASSWORD and SIGNPOST_SENTINEL_PASSWORD are not set"},
	} {
		forgot := spawn(t, signpost(t, tt.settings, "serve"))
		if code := forgot.wait(t); code != 1 || !strings.Contains(forgot.stderr.String(), tt.want) {
			t.Errorf("exit code %d and %q, want 1 and %q", code, forgot.stderr.String(), tt.want)
		}
	}
	serve(t, "STORE="+behind, "SENTINEL_PASSWORD=of-sentinels")
}

// What a bound does not do is said at the start, and only where it does not.
func TestGreetingSaysThatNothingIsExpensive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{[]string{"serve"}, false},
		{[]string{"serve", "--upstream", "http://127.0.0.1:1"}, true},
		{[]string{"serve", "--upstream", "http://127.0.0.1:1", "--expensive", "POST /recall, /export/"}, false},
		{[]string{"serve", "--mcp", "http://127.0.0.1:1"}, true},
		{[]string{"serve", "--mcp", "http://127.0.0.1:1", "--mcp-expensive", "recall"}, false},
	} {
		d := spawn(t, signpost(t, nil, tt.args...))
		greeting := greetingOf(t, d)
		d.started(t)
		const note = " is expensive, so the concurrency of a bound refuses nothing at the door"
		if said, logged := strings.Contains(greeting, note), strings.Contains(d.stderr.String(), note); said != tt.want || logged != tt.want {
			t.Errorf("signpost %s: said %v, logged %v, want %v:\n%s", strings.Join(tt.args, " "), said, logged, tt.want, greeting)
		}
	}
}

// greetingOf waits for the whole greeting. Its last line is the one with the published limits.
func greetingOf(t *testing.T, p *process) string {
	t.Helper()
	p.firstLine(t)
	eventually(t, "the greeting is whole", func() bool {
		return strings.HasSuffix(p.stdout.String(), "/.well-known/limits\n")
	})
	return p.stdout.String()
}
