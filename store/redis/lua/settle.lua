-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- settle adds counts to the windows that are open, whatever the limits.
--
-- KEYS[1] has the windows. ARGV[1] is the instant (0: the server's clock) and records as they are stored, at most
-- MAX_LENGTHS and one for an interval. A count of an interval that a take would not be judged in is dropped.
local clock, load, find, write = tools()
local now, first = unpack('>I8', ARGV[1])
local named = now > 0
if not named then now = clock() end
local state, unknown = load(KEYS[1])
if unknown then return unknown end
local settled = VERSION
for at = first, #ARGV[1], SIZE do
  local seconds, counted, more = unpack(RECORD, ARGV[1], at)
  local number, used = find(state, seconds)
  local current = math.floor(now / (seconds * 1000))
  if number < current then -- Step 1.
    number, used = current, 0
  elseif number > current + 1 then
    number = current
  end
  if number == counted then
    settled = settled .. pack(RECORD, seconds, number, math.min(used + more, 4294967295))
  end
end
if #settled > 1 then write(KEYS[1], state, now, settled, named) end
return redis.status_reply('OK')
