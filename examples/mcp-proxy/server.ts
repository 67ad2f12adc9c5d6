// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// A server of MCP that knows nothing of limits. It has a session for nobody: each request stands for itself.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const says = (text: string) => ({ content: [{ type: "text" as const, text }] });

function newServer(): McpServer {
  const server = new McpServer({ name: "example", version: "1" });
  server.registerTool("search", { description: "Looks for a text.", inputSchema: { text: z.string() } }, ({ text }) =>
    says(`Nothing was found for "${text}".`),
  );
  server.registerTool("export", { description: "Exports everything. It takes five seconds." }, async ({ signal }) => {
    await wait(5000, undefined, { signal });
    return says("Everything is exported.");
  });
  return server;
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url !== "/mcp" || request.method !== "POST") {
    response.writeHead(request.url === "/mcp" ? 405 : 404, { Allow: "POST" }).end();
    return;
  }
  const server = newServer();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on("close", () => void server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
}

const http = createServer((request, response) => {
  serve(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
http.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = http.address();
  if (address !== null && typeof address === "object") {
    console.log(`The server of MCP listens at http://127.0.0.1:${address.port}/mcp`);
  }
});
