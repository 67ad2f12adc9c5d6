// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// exampleServer is examples/mcp-server, and runs.
type exampleServer struct {
	*process
	url, link string // link: "" but on the first start
}

func startExampleServer(t *testing.T, program, data string) *exampleServer {
	t.Helper()
	cmd := exec.Command(program, "-listen", "127.0.0.1:0", "-data", data, "-exporting", "1h")
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	s := &exampleServer{process: spawn(t, cmd)}
	const says = "Clients of MCP connect to "
	eventually(t, "the example says where it listens, or ends", func() bool {
		return s.hasEnded() || strings.Contains(s.stdout.String(), says) && strings.HasSuffix(s.stdout.String(), "\n")
	})
	for line := range strings.Lines(s.stdout.String()) {
		line = strings.TrimSpace(line)
		if url, ok := strings.CutPrefix(line, says); ok {
			s.url = url
		}
		if at := strings.Index(line, "sp_"); at >= 0 {
			s.link = line[at:]
		}
	}
	if s.url == "" {
		t.Fatalf("the example wrote %q and %q", s.stdout.String(), s.stderr.String())
	}
	return s
}

// connectTo opens a session at a URL with a link.
func connectTo(t *testing.T, url, link string) *mcp.ClientSession {
	t.Helper()
	g := &goClient{}
	g.connect(t, url, link)
	return g.session
}

// callTool calls a tool. What it was refused with is an error.
func callTool(ctx context.Context, s *mcp.ClientSession, tool string) error {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err == nil && res.IsError {
		err = errors.New(res.Content[0].(*mcp.TextContent).Text)
	}
	return err
}

// limit is what the tool limits says of one bound.
type limit struct {
	Name string
	R, T int
}

// askLimits asks the tool limits what is left of a bound.
func askLimits(t *testing.T, s *mcp.ClientSession, name string) limit {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "limits"})
	if err != nil || res.IsError {
		t.Fatalf("limits: %v %+v", err, res)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Policies []limit }
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	for _, l := range said.Policies {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("limits tells nothing of %s: %s", name, text)
	return limit{}
}

// The example of a server in Go, with the client of its SDK.
func TestExampleServerOfMCP(t *testing.T) {
	t.Parallel()
	program, data := filepath.Join(t.TempDir(), "mcp-server"), t.TempDir()
	if err := build(program, "examples/mcp-server"); err != nil {
		t.Fatal(err)
	}
	first := startExampleServer(t, program, data)
	s := connectTo(t, first.url, first.link)
	if text := s.InitializeResult().Instructions; !strings.Contains(text, "20 requests per minute and 200 requests per hour; 1 expensive request at once.") {
		t.Errorf("its instructions: %s", text)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- callTool(ctx, s, "export") }()
	eventually(t, "the slot is taken", func() bool { return askLimits(t, s, "concurrency").R == 0 })
	if err := callTool(t.Context(), s, "export"); err == nil || !strings.HasPrefix(err.Error(), "Concurrency limit exceeded (1 expensive request at once for this link). Nothing was executed.") {
		t.Errorf("a second export: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an export that was given up has a result")
	}
	eventually(t, "the slot is back", func() bool { return askLimits(t, s, "concurrency").R == 1 })

	searches := 0
	for {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search", Arguments: map[string]any{"text": "milk"}})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Content[0].(*mcp.TextContent).Text
		if res.IsError && strings.HasPrefix(text, "Rate limit exceeded (20 requests per minute for this link). Nothing was executed. Wait ") {
			break
		}
		if searches++; text != `Nothing was found for "milk".` || searches > 8 { // four a minute, and a minute may end between them
			t.Fatalf("search %d says %s", searches, text)
		}
	}
	if searches < 3 { // the first export has taken one of the twenty
		t.Errorf("%d searches were admitted", searches)
	}

	before := askLimits(t, s, "hour")
	first.kill(t)
	again := startExampleServer(t, program, data)
	if again.link != "" {
		t.Error("a second start prints a first link")
	}
	after := askLimits(t, connectTo(t, again.url, first.link), "hour")
	if after.T <= before.T && after.R != before.R {
		t.Errorf("%d were left of the hour before it was killed, and %d are after", before.R, after.R)
	}
}
