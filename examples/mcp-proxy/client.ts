// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// A client that calls until it is refused, waits as it was told, and calls again.
//
//   SIGNPOST_LINK=sp_... npm run call

import { setTimeout as wait } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, type CallToolResult } from "@modelcontextprotocol/sdk/types.js";

const url = new URL(process.env.SIGNPOST_MCP_URL ?? "http://127.0.0.1:8080/mcp");
if (!process.env.SIGNPOST_LINK) throw new Error("set SIGNPOST_LINK to a link");
const headers = { Authorization: `Bearer ${process.env.SIGNPOST_LINK}` };

const client = new Client({ name: "example", version: "1" });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));

async function search(): Promise<CallToolResult> {
  const result = CallToolResultSchema.parse(await client.callTool({ name: "search", arguments: { text: "milk" } }));
  for (const part of result.content) {
    if (part.type === "text") console.log(part.text);
  }
  return result;
}

let result = await search();
while (!result.isError) result = await search();
const seconds = Number(result.structuredContent?.retryAfterSeconds);
if (!(seconds > 0)) throw new Error("no wait helps");
await wait(1000 * seconds);
result = await search();
await client.close();
process.exitCode = result.isError ? 1 : 0;
