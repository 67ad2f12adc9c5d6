// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// A client of MCP that does what it is told. Each line of its input is a Command, each line of its output an Answer to one, or a
// trouble that the client had besides. It ends with its input.

import { createInterface } from "node:readline";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";

type Command = { id: number } & (
	| { do: "connect"; url: string; link: string }
	| { do: "call"; tool: string }
	| { do: "cancel"; call: number } // the id of the command
	| { do: "list" }
	| { do: "close" }
);

type Answer = {
	id: number;
	result?: unknown;
	error?: { code?: number; message: string }; // what was thrown
	marker?: string; // of the last response to a POST
	form?: string; // its Content-Type
};

let client: Client;
let transport: StreamableHTTPClientTransport;
let last: Response | undefined; // to a POST
const calls = new Map<number, AbortController>();

function say(line: Answer | { trouble: string }): void {
	process.stdout.write(JSON.stringify(line) + "\n");
}

async function obey(command: Command): Promise<unknown> {
	switch (command.do) {
		case "connect":
			transport = new StreamableHTTPClientTransport(new URL(command.url), {
				requestInit: { headers: { Authorization: `Bearer ${command.link}` } },
				fetch: async (url, init) => {
					const response = await fetch(url, init);
					if (init?.method === "POST") {
						last = response;
					}
					return response;
				},
			});
			client = new Client({ name: "e2e", version: "1" });
			client.onerror = (error) => say({ trouble: String(error) });
			return await client.connect(transport);
		case "call": {
			const controller = new AbortController();
			calls.set(command.id, controller);
			return await client.callTool({ name: command.tool }, undefined, { signal: controller.signal });
		}
		case "cancel":
			return calls.get(command.call)?.abort("the user has changed his mind");
		case "list":
			return await client.listTools();
		case "close":
			await transport.terminateSession();
			client.onerror = undefined; // which hears that its own stream was closed
			return await client.close();
	}
}

createInterface({ input: process.stdin })
	.on("line", async (line) => {
		const command = JSON.parse(line) as Command;
		const answer: Answer = { id: command.id };
		try {
			answer.result = await obey(command);
		} catch (thrown) {
			const error = thrown instanceof Error ? thrown : new Error(String(thrown));
			answer.error = { code: error instanceof McpError ? error.code : undefined, message: error.message };
		}
		answer.marker = last?.headers.get("X-Signpost-RateLimit") ?? undefined;
		answer.form = last?.headers.get("Content-Type") ?? undefined;
		say(answer);
	})
	.on("close", () => process.exit());
