-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- records returns the instant, and the fields of each record of KEYS.
local clock = tools()
local all = {clock()}
for i, record in ipairs(KEYS) do all[i + 1] = call('HMGET', record, 'hash', 'record', 'revoked') end
return all
