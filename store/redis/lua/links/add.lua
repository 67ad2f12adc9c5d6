-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- add registers a link, and answers "added", "exists" or "full".
--
-- KEYS: the record; the ids of all records, in order; when ended records are dropped; when try links that are alive expire.
-- ARGV: the id; the hash; the record; when it expires and when it was revoked (0: never); how many try
-- links may be alive ("" if this is none); how long an ended record is kept. Times are in Unix milliseconds.
local clock = tools()
local record, ids, ends, tries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, expires, revoked, most, keep = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = clock()
if call('EXISTS', record) == 1 then return 'exists' end
if most and revoked == 0 and (expires == 0 or expires > now) then
  call('ZREMRANGEBYSCORE', tries, '-inf', now)
  if call('ZCARD', tries) >= most then return 'full' end
  call('ZADD', tries, expires == 0 and '+inf' or expires, id)
end
for _, gone in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)) do
  call('ZREM', ids, gone)
  call('ZREM', ends, gone)
end
call('HSET', record, 'hash', ARGV[2], 'record', ARGV[3])
if revoked ~= 0 then call('HSET', record, 'revoked', ARGV[5]) end
call('ZADD', ids, 0, id)
local ended = revoked ~= 0 and math.max(revoked, now) or expires
if ended ~= 0 then
  local gone = math.max(ended + keep, now + SLACK)
  call('PEXPIREAT', record, gone)
  call('ZADD', ends, gone, id)
end
return 'added'
