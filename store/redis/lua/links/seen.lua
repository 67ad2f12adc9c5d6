-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- seen notes that a link was used, unless that was noted less than a minute before.
--
-- KEYS: the record; when the link was last seen. ARGV: the hash; when it was used.
local record, seen = KEYS[1], KEYS[2]
local last, at = tonumber(call('GET', seen) or 0), tonumber(ARGV[2])
if at - last >= 60000 and call('HGET', record, 'hash') == ARGV[1] then
  local left = call('PTTL', record)
  if left > 0 then call('SET', seen, ARGV[2], 'PX', left) else call('SET', seen, ARGV[2]) end
end
return 1
