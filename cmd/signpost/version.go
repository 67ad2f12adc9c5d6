// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/daemon"
)

func versionCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		RunE: func(*cobra.Command, []string) error {
			build := daemon.ReadBuild()
			if asJSON {
				return json.NewEncoder(p.stdout).Encode(build)
			}
			_, err := fmt.Fprintln(p.stdout, build)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
