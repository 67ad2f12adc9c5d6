// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// A server of MCP, as the upstream of these tests is one: its URL is the first line that it prints, and it ends with its input.
// With JSON=1 it answers in JSON, and else in event streams.
//
//	/mcp              the tools quick, and hang, which answers when it is let go
//	/control/hanging  how many calls wait to be let go
//	/control/go       lets all go that wait

import { randomUUID, webcrypto } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

// Node 18 has no global crypto, which the SDK asks for.
globalThis.crypto ??= webcrypto as Crypto;

const done = { content: [{ type: "text" as const, text: "done" }] };
const hanging = new Set<() => void>();

function newServer(): McpServer {
	const server = new McpServer({ name: "e2e", version: "1" });
	server.registerTool("quick", {}, () => done);
	server.registerTool("hang", {}, async ({ signal }) => {
		await new Promise<void>((end) => {
			const letGo = () => {
				hanging.delete(letGo);
				end();
			};
			hanging.add(letGo);
			signal.addEventListener("abort", letGo);
		});
		return done;
	});
	return server;
}

const sessions = new Map<string, StreamableHTTPServerTransport>();

async function serveMCP(req: IncomingMessage, res: ServerResponse): Promise<void> {
	const session = req.headers["mcp-session-id"];
	if (session !== undefined) {
		const known = sessions.get(String(session));
		await (known === undefined ? res.writeHead(404).end() : known.handleRequest(req, res));
		return;
	}
	const transport = new StreamableHTTPServerTransport({
		sessionIdGenerator: randomUUID,
		enableJsonResponse: process.env.JSON === "1",
		onsessioninitialized: (id) => void sessions.set(id, transport),
	});
	await newServer().connect(transport);
	await transport.handleRequest(req, res);
}

const server = createServer((req, res) => {
	switch (req.url) {
		case "/mcp":
			void serveMCP(req, res);
			break;
		case "/control/hanging":
			res.end(String(hanging.size));
			break;
		case "/control/go":
			hanging.forEach((letGo) => letGo());
			res.end();
			break;
		default:
			res.writeHead(404).end();
	}
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
process.stdin.on("end", () => process.exit()).resume();
