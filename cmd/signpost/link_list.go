// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
)

func linkListCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all links, those that ended lately too",
		Long: `List all links in order of their IDs, those that ended lately too.

With --json, each page of the answer is a JSON object on a line of its own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			t := r.table()
			if !r.json {
				fmt.Fprintln(t, "ID\tSTATE\tORIGIN\tLABEL\tHELD TO\tCREATED\tEXPIRES\tLAST SEEN")
			}
			path := "/v1/links?limit=" + strconv.Itoa(admin.MaxPage)
			for after := ""; ; {
				page := path
				if after != "" {
					page += "&after=" + after
				}
				var list admin.LinkList
				if err := r.call(cmd.Context(), c, "GET", page, nil, &list); err != nil {
					return err
				}
				for _, l := range list.Links {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.State, l.Origin, cmp.Or(l.Label, "-"),
						l.HeldTo, utc(l.Created, "-"), utc(l.Expires, "never"), utc(l.LastSeen, "never"))
				}
				if after = list.Next; after == "" {
					return t.Flush()
				}
			}
		},
	}
}
