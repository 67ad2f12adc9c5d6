// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/internal/daemon"
	"github.com/signposthq/signpost/link"
)

// remote is what the sub-commands that talk to a running daemon share: how to find it, its token, and the
// form of the output.
type remote struct {
	*process
	address   string
	data      string
	cleartext bool
	json      bool
}

// newRemote adds the shared flags to a command and to all below it.
func newRemote(p *process, cmd *cobra.Command) *remote {
	r := &remote{process: p}
	defaults := daemon.Default()
	flags := cmd.PersistentFlags()
	flags.StringVar(&r.address, "admin", cmp.Or(p.getenv("SIGNPOST_ADMIN"), defaults.Admin),
		"the admin address of the daemon, HOST:PORT or a URL (SIGNPOST_ADMIN)")
	flags.StringVar(&r.data, "data", cmp.Or(p.getenv("SIGNPOST_DATA"), defaults.Data),
		"where the daemon keeps its token, unless SIGNPOST_ADMIN_TOKEN holds it (SIGNPOST_DATA)")
	flags.BoolVar(&r.cleartext, "cleartext", false, "send the token over plain http to another machine")
	flags.BoolVar(&r.json, "json", false, "print the JSON of the admin API as it is")
	return r
}

// client returns a client of the daemon.
func (r *remote) client() (*admin.Client, error) {
	token := r.getenv("SIGNPOST_ADMIN_TOKEN")
	if token == "" {
		file := admin.TokenFile(r.data)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, try("set SIGNPOST_ADMIN_TOKEN, or name the daemon's data directory with --data", "read admin token: %w", err)
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return nil, fmt.Errorf("read admin token: %s is empty", file)
		}
	}
	c, err := admin.NewClient(r.address, token, r.cleartext)
	switch {
	case errors.Is(err, admin.ErrCleartext):
		return nil, try("use https, or a tunnel: ssh -L 9090:127.0.0.1:9090 HOST; on a private network, --cleartext", "%w", err)
	case err != nil:
		return nil, usageError{fmt.Errorf("--admin: %w", err)}
	}
	return c, nil
}

// call sends one request and decodes the answer into out. With --json it prints the answer as well.
func (r *remote) call(ctx context.Context, c *admin.Client, method, path string, in, out any) error {
	answer, err := c.Do(ctx, method, path, in)
	if err != nil {
		return explain(err)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decode answer of daemon: %w", err)
	}
	if r.json {
		_, err = r.stdout.Write(answer)
	}
	return err
}

// try returns an error with a second line that says what to do about it.
func try(hint, format string, args ...any) error {
	return fmt.Errorf("%w\nTry: %s", fmt.Errorf(format, args...), hint)
}

// explain adds to an error of a request what to do about it.
func explain(err error) error {
	var (
		problem *admin.Problem
		dial    *net.OpError
	)
	switch {
	case errors.As(err, &problem) && problem.Code == "unauthorized":
		return try("set SIGNPOST_ADMIN_TOKEN, or name the daemon's data directory with --data", "%w", err)
	case errors.As(err, &problem) && problem.Code == "bad_request":
		return usageError{err}
	case errors.As(err, &problem) && problem.Code == "unknown_link":
		return try("signpost link list", "%w", err)
	case errors.As(err, &problem) && problem.Hint != "":
		return try(problem.Hint, "%w", err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return try("start it with 'signpost serve', or name its admin address with --admin", "%w", err)
	}
	return err
}

// minPrefix is how many digits tell an ID on the command line. Fewer are more likely a slip than a choice.
const minPrefix = 4

// id returns the ID that an argument means: an ID, its first digits if no other ID has them, or a link, of
// which nothing but the ID is sent. An argument that is none of these is not repeated: it may be a link with a slip in it.
func (r *remote) id(ctx context.Context, c *admin.Client, arg string) (string, error) {
	if l, err := link.Parse(arg); err == nil {
		return l.Hash().ID(), nil
	}
	digits := strings.ToLower(arg)
	if len(digits) < minPrefix || len(digits) > 16 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", usageError{fmt.Errorf("the argument is neither the ID of a link, nor its first %d digits or more, nor a link", minPrefix)}
	}
	if len(digits) == 16 {
		return digits, nil
	}
	links, err := startingWith(ctx, c, digits, 2)
	switch {
	case err != nil:
		return "", explain(err)
	case len(links) == 0:
		return "", try("signpost link list", "no link has an ID that starts with %s", digits)
	case len(links) > 1:
		return "", try("more digits", "%s and %s both start with %s", links[0].ID, links[1].ID, digits)
	}
	return links[0].ID, nil
}

// startingWith returns the first links whose ID starts with some digits, up to a limit.
func startingWith(ctx context.Context, c *admin.Client, digits string, limit int) ([]admin.Link, error) {
	path := "/v1/links?limit=" + strconv.Itoa(limit)
	// IDs are in the order of the numbers that they are, and a list begins after the ID it is given.
	first, err := strconv.ParseUint((digits + strings.Repeat("0", 16))[:16], 16, 64)
	if err != nil {
		return nil, fmt.Errorf("read ID: %w", err)
	}
	if first > 0 {
		path += fmt.Sprintf("&after=%016x", first-1)
	}
	answer, err := c.Do(ctx, "GET", path, nil)
	if err != nil {
		return nil, err
	}
	var list admin.LinkList
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("decode answer of daemon: %w", err)
	}
	for i, l := range list.Links {
		if !strings.HasPrefix(l.ID, digits) {
			return list.Links[:i], nil
		}
	}
	return list.Links, nil
}

// completeID offers the IDs of links to the shell, with their labels. Trouble offers nothing.
func (r *remote) completeID(cmd *cobra.Command, _ []string, digits string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := r.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	links, _ := startingWith(ctx, c, digits, 50)
	var ids []cobra.Completion
	for _, l := range links {
		ids = append(ids, cobra.CompletionWithDesc(l.ID, strings.TrimSpace(l.State+" "+label(&l))))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// table returns a writer of columns between tabs. Flush ends it.
func (r *remote) table() *tabwriter.Writer { return tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0) }

// utc formats an instant for people; the zero time as what it means.
func utc(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
