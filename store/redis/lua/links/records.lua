-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- records returns the fields of each record of KEYS.
local all = {}
for i, record in ipairs(KEYS) do all[i] = call('HMGET', record, 'hash', 'record', 'revoked') end
return all
