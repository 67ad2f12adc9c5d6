// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/admin"
)

func linkCommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Manage the links of a running daemon",
		Long: `Manage the links of a running daemon.

A link is a bearer credential. The daemon keeps its hash only, so it is shown once, when it is minted; after
that it is called by its ID. Wherever an ID is asked for, its first digits will do, or the link
itself: it is hashed here and not sent.`,
	}
	r := newRemote(p, cmd)
	cmd.AddCommand(linkMintCommand(r), linkListCommand(r), linkShowCommand(r), linkRevokeCommand(r))
	return cmd
}

// anyLink is the Args of a command that takes the IDs of links.
func anyLink(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name a link: by its ID, the first digits of the ID, or the link itself")
	}
	return nil
}

// writeLink writes the fields of a link as rows of a table.
func writeLink(w io.Writer, l *admin.Link) {
	bound := "default"
	if !l.Bound.IsZero() {
		bound = "its own"
	}
	fmt.Fprintf(w, "ID\t%s\n", l.ID)
	fmt.Fprintf(w, "Label\t%s\n", cmp.Or(label(l), "-"))
	fmt.Fprintf(w, "State\t%s\n", l.State)
	fmt.Fprintf(w, "Origin\t%s\n", l.Origin)
	if !l.Home.IsZero() {
		fmt.Fprintf(w, "Home\t%s\n", l.Home)
	}
	fmt.Fprintf(w, "Bound\t%s (%s)\n", l.HeldTo, bound)
	fmt.Fprintf(w, "Created\t%s\n", utc(l.Created, "-"))
	fmt.Fprintf(w, "Expires\t%s\n", utc(l.Expires, "never"))
	if !l.Revoked.IsZero() {
		fmt.Fprintf(w, "Revoked\t%s\n", utc(l.Revoked, "-"))
	}
	fmt.Fprintf(w, "Last seen\t%s\n", utc(l.LastSeen, "never"))
}

// called returns the ID of a link and its label, if it has one.
func called(l *admin.Link) string {
	if l.Label == "" {
		return l.ID
	}
	return l.ID + " (" + label(l) + ")"
}

// label returns the label of a link for a terminal. The admin API takes printable text alone, but links are minted in programs too.
func label(l *admin.Link) string {
	if strings.ContainsFunc(l.Label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(l.Label)
	}
	return l.Label
}
