// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
)

func linkRevokeCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID...",
		Short: "End links: they are refused from the next request on",
		Long: `End links: they are refused from the next request on. There is no way back.

A link that is revoked again keeps the first instant. With --json, each link is a JSON object on a line of its own.`,
		Args:              anyLink,
		ValidArgsFunction: r.completeID,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			// Every argument is understood before the first link ends.
			ids := make([]string, len(args))
			for i, arg := range args {
				if ids[i], err = r.id(cmd.Context(), c, arg); err != nil {
					return err
				}
			}
			for _, id := range ids {
				var l admin.Link
				if err := r.call(cmd.Context(), c, "POST", "/v1/links/"+id+"/revoke", nil, &l); err != nil {
					return fmt.Errorf("link %s: %w", id, err)
				}
				if !r.json {
					fmt.Fprintf(r.stdout, "Revoked %s at %s\n", called(&l), utc(l.Revoked, "-"))
				}
			}
			return nil
		},
	}
}
