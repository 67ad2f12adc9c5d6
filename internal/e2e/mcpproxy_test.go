// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a command line in the root of the repository, and ends all that it starts with the test.
func shell(t *testing.T, line string, env ...string) *process {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = "../.."
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := spawn(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // it may have ended
	return p
}

// The commands of examples/mcp-proxy do what its README shows. The packages are those that make installs, and the window is shorter, so that the
// wait is.
func TestExampleBehindTheProxy(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/mcp-proxy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := blocks(string(text), "sh")[0]
	command := func(i int, done string) string {
		t.Helper()
		rest, ok := strings.CutPrefix(commands[i], done)
		if !ok {
			t.Fatalf("the README has the command %q, and this test expects %q at its beginning", commands[i], done)
		}
		return rest
	}

	server := shell(t, command(0, "npm ci --prefix examples/mcp-proxy && "), "PORT=0")
	listens := regexp.MustCompile(`The server of MCP listens at (\S+)\n`)
	waitFor(t, time.Minute, "the server listens, or ends", func() bool { return server.hasEnded() || listens.MatchString(server.stdout.String()) })
	where := listens.FindStringSubmatch(server.stdout.String())
	if where == nil {
		t.Fatalf("the server does not run; make needs installs its packages: %s%s", server.stdout.String(), server.stderr.String())
	}

	serving := signpost(t, []string{"MCP=" + where[1], "BOUNDS_LINKS=20/10s"})
	serving.Path, serving.Dir = "/bin/sh", "../.."
	serving.Args = []string{"sh", "-c", "exec " + binary + command(1, "make build && bin/signpost") + " --json"}
	d := &daemon{process: spawn(t, serving)}
	if err := json.Unmarshal([]byte(d.firstLine(t)), d); err != nil {
		t.Fatal(err)
	}

	client := shell(t, strings.ReplaceAll(command(2, ""), "sp_…", d.Link), "SIGNPOST_MCP_URL="+d.Door+"/mcp")
	waitFor(t, time.Minute, "the client has ended", client.hasEnded)
	if code := client.wait(t); code != 0 {
		t.Errorf("the client ends with %d: %s%s", code, client.stdout.String(), client.stderr.String())
	}
	wait := regexp.MustCompile(`Wait \d+ seconds?`)
	got := wait.ReplaceAllString(client.stdout.String(), "Wait 34 seconds")
	searches := strings.Count(got, "Nothing was found")
	// More than four fit before the refusal if a window ended between them.
	got = strings.Join(slices.Compact(strings.Split(got, "\n")), "\n")
	want := strings.Join(slices.Compact(slices.Clone(blocks(string(text), "text")[0])), "\n")
	if want = strings.ReplaceAll(want, "per minute", "per 10 seconds"); searches < 5 || !strings.Contains(got, want) {
		t.Errorf("the README shows\n%s\nand the client prints\n%s", want, client.stdout.String())
	}
}
