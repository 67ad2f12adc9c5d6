// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/signposthq/signpost/link"
)

// greeting is what a start prints: where everything is, and the credentials that are shown once.
type greeting struct {
	Door           string `json:"door"`
	API            string `json:"api"`
	Admin          string `json:"admin"`
	Upstream       string `json:"upstream,omitempty"`       // absent: the sample
	MCP            string `json:"mcp,omitempty"`            // where clients of MCP connect
	Link           string `json:"link,omitempty"`           // only of the first start
	AdminToken     string `json:"adminToken,omitempty"`     // only where it is kept nowhere
	AdminTokenFile string `json:"adminTokenFile,omitempty"` // only where it is kept there

	mint     string // the command that mints a link
	behind   string // the server of MCP, if there is one
	unread   bool   // whether there are links cannot be read, as the store does not answer
	allCheap string // what is said where nothing is expensive, which is easily overlooked
}

const (
	allCheap      = "no request is expensive, so the concurrency of a bound refuses nothing at the door; see `expensive`"
	allToolsCheap = "no tool is expensive, so the concurrency of a bound refuses nothing at the door; see `mcp_expensive`"
)

// greet prints the greeting to stdout, where nothing else goes.
func (d *daemon) greet(c *Config, first link.Link, unread bool, token Secret) error {
	g := greeting{Door: d.door.url(), API: d.api.url(), Admin: d.admin.url(), Upstream: formatUpstream(c.Upstream), Link: first.Reveal(),
		mint: d.command(c, "link mint"), unread: unread}
	switch {
	case c.MCP != nil && len(c.MCPExpensive) == 0:
		g.allCheap = allToolsCheap
	case c.MCP == nil && len(c.Expensive) == 0:
		g.allCheap = allCheap
	}
	if c.MCP != nil {
		g.MCP = d.door.url() + (&url.URL{Path: c.mcpPath()}).EscapedPath()
		g.behind = formatUpstream(c.MCP)
	}
	switch {
	case !c.AdminToken.IsZero(): // whoever set it has it
	case c.Store == StoreMemory:
		g.AdminToken = token.Reveal()
	default:
		g.AdminTokenFile = c.tokenFile()
	}
	if g.allCheap != "" {
		d.log.Warn(g.allCheap)
	}
	var err error
	if d.JSON {
		err = json.NewEncoder(d.Stdout).Encode(g)
	} else {
		_, err = fmt.Fprint(d.Stdout, g.text())
	}
	if err != nil {
		return fmt.Errorf("print where the daemon listens: %w", err)
	}
	return nil
}

// command returns the command line of a sub-command that asks this daemon, for a shell in the directory that this process was started in.
func (d *daemon) command(c *Config, sub string) string {
	program, err := os.Executable()
	switch {
	case err != nil:
		program = "signpost"
	case strings.Contains(program, "go-build"): // of "go run", and gone when this process ends
		program = "go run ./cmd/signpost"
	default:
		program = shellWord(program)
	}
	line := program + " " + sub
	defaults := Default()
	if c.Admin != defaults.Admin {
		line += " --admin " + shellWord(d.admin.address())
	}
	if c.Data != defaults.Data && c.AdminToken.IsZero() {
		line += " --data " + shellWord(c.Data)
	}
	return line
}

// shellWord returns a text as one word of a POSIX shell.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// pingMessage asks a server of MCP whether it is there. It is free.
const pingMessage = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// text is the greeting for people. Its curl lines work as they stand.
func (g *greeting) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	behind := "the built-in sample"
	if g.Upstream != "" {
		behind = g.Upstream
	}
	if g.MCP != "" {
		behind = g.behind
	}
	line("signpost is running.")
	line("")
	line("  door   %s  in front of %s", g.Door, behind)
	if g.MCP != "" {
		line("  mcp    %s  is where clients of MCP connect", g.MCP)
	}
	line("  api    %s", g.API)
	line("  admin  %s", g.Admin)
	switch {
	case g.AdminToken != "":
		line("")
		line("The admin token, until this process ends:")
		line("")
		line("  export SIGNPOST_ADMIN_TOKEN=%s", g.AdminToken)
	case g.AdminTokenFile != "":
		line("         the admin token is in %s", g.AdminTokenFile)
	}
	line("")
	if g.allCheap != "" {
		line("Note: %s.", g.allCheap)
		if g.MCP != "" {
			line("Name some in SIGNPOST_MCP_EXPENSIVE, or with --mcp-expensive: --mcp-expensive search,export; * names all")
		} else {
			line("Name some in SIGNPOST_EXPENSIVE, or with --expensive: --expensive 'POST /recall,/export/'")
		}
		line("")
	}
	if g.unread {
		line("The store does not answer yet. Until it does, local rules decide, and there is no link to show. Then mint one:")
		line("")
		line("  %s", g.mint)
		return b.String()
	}
	if g.Link == "" {
		line("Links that were minted before are as good as they were. Mint another:")
		line("")
		line("  %s", g.mint)
		return b.String()
	}
	line("Your first link. It is a credential, and shown only this once:")
	line("")
	line("  %s", g.Link)
	line("")
	line("Try it:")
	line("")
	bearer := "-H 'Authorization: Bearer " + g.Link + "'"
	switch {
	case g.MCP != "":
		line("  curl -i %s -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '%s' %s", bearer, pingMessage, g.MCP)
	case g.Upstream != "":
		line("  curl -i %s %s/", bearer, g.Door)
	default:
		line("  curl -i %s %s/read/welcome", bearer, g.Door)
		line("  curl %s -d 'Buy milk.' %s/remember/shopping", bearer, g.Door)
		line("  curl %s '%s/recall?q=milk'", bearer, g.Door)
	}
	line("  curl %s%s", g.Door, limitsPath)
	return b.String()
}
