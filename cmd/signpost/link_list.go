// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
)

func linkListCommand(r *remote) *cobra.Command {
	var origin string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all links, those that ended lately too",
		Long: `List all links in order of their IDs, those that ended lately too.

LAST SEEN is noted at most once a minute for each link, so a link can have been used a minute later than it says.

With --json, each page of the answer is a JSON object on a line of its own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			t := r.table() // stays empty with --json
			if !r.json {
				fmt.Fprintln(t, "ID\tSTATE\tORIGIN\tHOME\tLABEL\tHELD TO\tCREATED\tEXPIRES\tLAST SEEN")
			}
			path := "/v1/links?limit=" + strconv.Itoa(admin.MaxPage)
			if origin != "" {
				path += "&origin=" + url.QueryEscape(origin)
			}
			for page := path; ; {
				var list admin.LinkList
				if err := r.call(cmd.Context(), c, "GET", page, nil, &list); err != nil {
					return err
				}
				if !r.json {
					writeRows(t, list.Links)
				}
				if list.Next == "" {
					return t.Flush()
				}
				page = path + "&after=" + list.Next
			}
		},
	}
	cmd.Flags().StringVar(&origin, "origin", "", "only links that an owner or that a stranger minted: owner or try")
	return cmd
}

// writeRows writes links as rows of a table, one a link.
func writeRows(w io.Writer, links []admin.Link) {
	for _, l := range links {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.State, l.Origin, cmp.Or(l.Home.String(), "-"), cmp.Or(label(&l), "-"),
			l.HeldTo, utc(l.Created, "-"), utc(l.Expires, "never"), utc(l.LastSeen, "never"))
	}
}
