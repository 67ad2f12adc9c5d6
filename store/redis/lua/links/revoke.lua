-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- revoke ends a link, and returns its fields; those are nil if there is no such link.
--
-- KEYS: the record; when ended records are dropped; when try links that are alive expire; when the link was last seen.
-- ARGV: the id; when it was revoked; how long an ended record is kept.
local clock = tools()
local record, ends, tries, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep = tonumber(ARGV[3])
if call('EXISTS', record) == 1 and call('HSETNX', record, 'revoked', ARGV[2]) == 1 then
  call('ZREM', tries, ARGV[1])
  local left = call('PTTL', record)
  if left < 0 or left > keep then -- else it has expired already
    call('PEXPIRE', record, keep)
    call('PEXPIRE', seen, keep)
    call('ZADD', ends, clock() + keep, ARGV[1])
  end
end
return call('HMGET', record, 'hash', 'record', 'revoked')
