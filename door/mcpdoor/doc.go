// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package mcpdoor holds the callers of a server of the Model Context Protocol to their bounds.
//
// One HTTP response of MCP can carry the answers to several messages, and none of its fields reaches the model. So this door
// decides for each message, and answers in the protocol: a refused tools/call is a result that says what happened,
// how long to wait, and that nothing was executed. [Charges] say which messages are charged.
package mcpdoor
