-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- uses returns when links were last seen, '' for never. KEYS: when each was.
local all = {}
for i, seen in ipairs(KEYS) do all[i] = call('GET', seen) or '' end
return all
