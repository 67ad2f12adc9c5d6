-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- settle adds counts to the windows that are open, whatever the limits.
--
-- KEYS[1] has the windows. ARGV[1] is the instant (0: the server's clock) and records as they are stored. A count of
-- an interval that a take would not be judged in is dropped.
local now, at = struct.unpack('>I8', ARGV[1])
if now == 0 then now = clock() end
local state = redis.call('GET', KEYS[1]) or ''
local fault = unknown(state)
if fault then return fault end
local records, place = {}, {}
for i = at, #ARGV[1], SIZE do
  local seconds, counted, more = struct.unpack(RECORD, ARGV[1], i)
  local o = place[seconds]
  local number, used
  if o then number, used = records[o + 1], records[o + 2] else number, used = find(state, seconds) end
  local current = math.floor(now / (seconds * 1000))
  if number < current then -- Step 1.
    number, used = current, 0
  elseif number > current + 1 then
    number = current
  end
  if number == counted then
    o = o or #records + 1
    place[seconds] = o
    records[o], records[o + 1], records[o + 2] = seconds, number, math.min(used + more, 4294967295)
  end
end
if #records > 0 then write(KEYS[1], state, now, records) end
return redis.status_reply('OK')
