// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Mcp-server is a whole server of MCP, with the middleware of the MCP door: callers are known by their link, a search costs five
// calls, only one export of a caller runs at a time, and links and counts survive a restart.
//
//	go run ./examples/mcp-server
//
// The first start prints a link. Give a client of MCP http://127.0.0.1:8000/mcp, and the link as its bearer token.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/disk"
)

var (
	bound = signpost.MustParseBound("20/min 200/hour 1 concurrent")

	listen    = flag.String("listen", "127.0.0.1:8000", "where clients connect")
	data      = flag.String("data", "mcp-server-data", "the directory of links and counts")
	exporting = flag.Duration("exporting", 5*time.Second, "how long an export takes")
)

type query struct {
	Text string `json:"text" jsonschema:"what to look for"`
}

func search(_ context.Context, _ *mcp.CallToolRequest, q query) (*mcp.CallToolResult, any, error) {
	return says("Nothing was found for %q.", q.Text), nil, nil
}

// export takes its time, unless its caller gives up.
func export(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	select {
	case <-time.After(*exporting):
		return says("Everything is exported."), nil, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func says(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// printFirstLink mints a link if there is none.
func printFirstLink(ctx context.Context, links link.Registry) error {
	if there, err := links.List(ctx, "", 1); err != nil || len(there) > 0 {
		return err
	}
	first := link.Mint()
	if err := links.Add(ctx, link.NewRecord(first, link.Owner, "first", time.Now())); err != nil {
		return err
	}
	_, err := fmt.Printf("Your first link, shown only this once: %s\n", first.Reveal())
	return err
}

func serve() error {
	store, err := disk.Open(*data, disk.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	links, limiter := store.Links(), signpost.New(store, signpost.Options{})

	door, err := mcpdoor.New(limiter, mcpdoor.Options{
		Identify:   mcpdoor.Links(links, bound),
		Charges:    mcpdoor.Charges{Expensive: []string{"export"}, Costs: map[string]uint32{"search": 5}},
		LimitsTool: true,
	})
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, &mcp.ServerOptions{Instructions: mcpdoor.Instructions(bound, true)})
	mcp.AddTool(server, &mcp.Tool{Name: "search", Description: "Looks for a text."}, search)
	mcp.AddTool(server, &mcp.Tool{Name: "export", Description: "Exports everything. It takes some seconds."}, export)
	door.AddTo(server)

	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	http.Handle("/mcp", door.Wrap(handler))
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if err := printFirstLink(context.Background(), links); err != nil {
		return err
	}
	fmt.Printf("Clients of MCP connect to http://%s/mcp\n", l.Addr())
	return (&http.Server{ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

func main() {
	flag.Parse()
	log.Fatal(serve())
}
