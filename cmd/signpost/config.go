// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/daemon"
)

func configCommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print a configuration",
	}
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Name every fault of a configuration, with its line, or none",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := sources(p, cmd.Flags())
			if len(args) == 1 {
				s.File = args[0]
			}
			if _, err := daemon.Load(s); err != nil {
				return err
			}
			_, err := fmt.Fprintln(p.stdout, "ok")
			return err
		},
	}
	print := &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the configuration in force as a file, each field with what it means",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := sources(p, cmd.Flags())
			if len(args) == 1 {
				s.File = args[0]
			}
			c, err := daemon.Load(s)
			if err != nil {
				return err
			}
			return c.Print(p.stdout)
		},
	}
	for _, sub := range []*cobra.Command{check, print} {
		configFlags(sub)
		cmd.AddCommand(sub)
	}
	return cmd
}
