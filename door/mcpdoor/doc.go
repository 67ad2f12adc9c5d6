// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package mcpdoor holds the callers of a server of the Model Context Protocol to their bounds.
//
// One HTTP response of MCP can carry the answers to several messages, and none of its fields reaches the model. So this door
// decides for each message, and answers in the protocol: a refused tools/call is a result that says what happened,
// how long to wait, and that nothing was executed. [Charges] say which messages are charged.
//
// [New] makes a [Door] for servers of github.com/modelcontextprotocol/go-sdk. [Door.AddTo] puts it into a server, and [Door.Wrap] around the
// HTTP handler of that server, so that a credential which is not known is turned away by the transport. The
// credential of each message counts, not that of the session that it belongs to.
//
// [NewProxy] makes a [Proxy] for servers in any language, which are left as they are.
//
// A call starts as soon as its take is decided. Its result waits until the count is durable; what the tool says
// before, such as progress or a question to the user, does not. A call of an expensive tool has one of the bound's concurrent slots from
// its take until its result is handed to the transport, or until the tool has given up because the caller cancelled.
package mcpdoor
