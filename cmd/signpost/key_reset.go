// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func keyResetCommand(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset [ID]",
		Short: "Forget all windows and leases of a key, and show what they were",
		Long: `Forget all windows and leases of a key, and show what they were.

The key starts again as one that was never used. No other key changes. Work in flight keeps running, and its
leases are no longer counted.`,
	}
	named := keyFlags(r, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shown, err := askKey(cmd.Context(), r, "reset", named, args)
		if err != nil || r.json {
			return err
		}
		fmt.Fprint(r.stdout, "Reset. Until now it held:\n\n")
		return r.writeKey(shown)
	}
	return cmd
}
