// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
)

func linkShowCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show what is known of a link",
		Args:              cobra.MatchAll(anyLink, cobra.MaximumNArgs(1)),
		ValidArgsFunction: r.completeID,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			id, err := r.id(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			var l admin.Link
			if err := r.call(cmd.Context(), c, "GET", "/v1/links/"+id, nil, &l); err != nil || r.json {
				return err
			}
			t := r.table()
			writeLink(t, &l)
			return t.Flush()
		},
	}
}
