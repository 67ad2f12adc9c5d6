# SPDX-FileCopyrightText: 2026 The Signpost Authors
# SPDX-License-Identifier: Apache-2.0

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME    ?= 20s

.PHONY: help run build test check unit fuzz bench needs

help: ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## run the limiter in front of a sample API, on the embedded store
	@exec bin/signpost serve

build: ## build bin/signpost
	go build -trimpath -o bin/signpost ./cmd/signpost

test: needs check unit ## install what the tests need, then check and test everything

# The race detector needs a C compiler. The clients and servers of MCP in TypeScript have packages of npm.
needs:
	scripts/needs gcc=gcc,libc6-dev git curl nginx redis-server node=nodejs npm
	@scripts/valkey >/dev/null
	@for dir in internal/e2e/testdata/mcp examples/mcp-proxy; do \
		[ $$dir/node_modules/.package-lock.json -nt $$dir/package-lock.json ] || npm ci --prefix $$dir --ignore-scripts --loglevel=error >/dev/null || exit; \
	done

check: ## format, vet, staticcheck, known vulnerabilities
	scripts/gofmt
	go mod tidy -diff
	cd bench && go mod tidy -diff
	go vet ./...
	cd bench && go vet ./...
	go run $(STATICCHECK) ./...
	cd bench && go run $(STATICCHECK) ./...
	scripts/vulncheck $(GOVULNCHECK)

# The packages are tested two at a time, as they start servers and kill them. What asks Redis is tested on Valkey as well.
unit:
	go test -race -p 2 -timeout 10m ./...
	valkey=$$(scripts/valkey) && SIGNPOST_TEST_REDIS=$$valkey go test -race -p 2 -timeout 10m ./store/redis ./store/homes
	cd bench && go test -timeout 5m ./...

fuzz: ## fuzz every parser for FUZZTIME each
	scripts/fuzz $(FUZZTIME)

bench: ## measure beside other limiters and rewrite docs/benchmarks.md
	cd bench && go run ./cmd/report
