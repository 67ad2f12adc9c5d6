// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
)

func linkMintCommand(r *remote) *cobra.Command {
	var (
		in       admin.MintRequest
		stranger bool
	)
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Mint a link and print it, this once",
		Example: `  signpost link mint --label "nightly build"
  signpost link mint --bound "60/min 1000/hour 4 concurrent" --expires 90d`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stranger {
				in.Origin = link.Try
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			var minted admin.MintedLink
			if err := r.call(cmd.Context(), c, "POST", "/v1/links", in, &minted); err != nil || r.json {
				return err
			}
			t := r.table()
			fmt.Fprintf(t, "Link\t%s\n", minted.Credential)
			writeLink(t, &minted.Link)
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintln(r.stderr, "Keep the link: nobody can show it again.")
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.Label, "label", "", "what people call the link")
	flags.StringVar(&in.Bound, "bound", "", `a bound of its own, such as "600/min 36000/hour 10 concurrent"`)
	flags.StringVar(&in.Expires, "expires", "", "an end: an instant such as 2030-01-31T00:00:00Z, or a time from now such as 90d or 12h")
	flags.StringVar(&in.Home, "home", "", "where it is counted, of the homes that the daemon knows; by default where the daemon is at home")
	flags.BoolVar(&stranger, "try", false, "mint it as a stranger would: with the bound and the life of a try link")
	return cmd
}
