// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func keyInspectCommand(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect [ID]",
		Short: "Show what is used of each bound, charging nothing",
		Example: `  signpost key inspect 3f9a2c
  signpost key inspect --namespace tenant --key acme --bound "100/min"`,
	}
	named := keyFlags(r, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shown, err := askKey(cmd.Context(), r, "inspect", named, args)
		if err != nil || r.json {
			return err
		}
		return r.writeKey(shown)
	}
	return cmd
}
