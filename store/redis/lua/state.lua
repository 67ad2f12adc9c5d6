-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- What the scripts share. Each is sent with this file before it. The steps are those of docs/rules.md.
--
-- The windows of a key are one string: a byte with the version of this format, then a record for each length, of the
-- length in seconds, the number of the interval since the epoch, and what is used of it. An interval begins at
-- number * length, so the window's number is part of the state, and the expiry of the key only cleans up.
local VERSION, RECORD, FIRST, SIZE = '\1', '>I4I5I4', 2, 13
local MAX_LENGTHS = 8
local LEASE_LIFE = 30000
-- How long a key outlives its last window or lease: it has to be there for a clock that was set back.
local SLACK = 60000

-- clock returns the instant of a request that names none, in milliseconds (step 9).
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
end

-- unknown returns an error if a newer process has written the windows, else nil.
local function unknown(state)
  if state ~= '' and (string.sub(state, 1, 1) ~= VERSION or (#state - 1) % SIZE ~= 0) then
    return redis.error_reply('STATE windows are of a format that this process does not know; upgrade it')
  end
end

-- find returns the interval that is stored for a length and what is used of it, or -1 and 0.
local function find(state, seconds)
  for at = FIRST, #state, SIZE do
    local length, number, used = struct.unpack(RECORD, state, at)
    if length == seconds then return number, used end
  end
  return -1, 0
end

-- write stores records, a flat list of length, number and used, in place of those of the same lengths. It keeps the
-- others, as step 8 says. Nothing here depends on when the key was last written, so an expiry never moves an end.
local function write(key, state, now, records)
  local new, life, named = VERSION, 0, {}
  for i = 1, #records, 3 do
    local seconds, number = records[i], records[i + 1]
    named[seconds] = true
    new = new .. struct.pack(RECORD, seconds, number, records[i + 2])
    life = math.max(life, (number + 1) * seconds * 1000 - now)
  end
  local others = {}
  for at = FIRST, #state, SIZE do
    local seconds, number = struct.unpack(RECORD, state, at)
    if not named[seconds] then
      others[#others + 1] = {seconds = seconds, ends = (number + 1) * seconds * 1000, record = string.sub(state, at, at + SIZE - 1)}
    end
  end
  local room = MAX_LENGTHS - #records / 3
  if #others > room then
    local open = {}
    for _, other in ipairs(others) do
      if other.ends > now then open[#open + 1] = other end
    end
    table.sort(open, function(a, b) return a.ends > b.ends or a.ends == b.ends and a.seconds > b.seconds end)
    while #open > room do table.remove(open) end
    others = open
  end
  for _, other in ipairs(others) do
    new = new .. other.record
    life = math.max(life, math.min(other.ends - now, 2 * other.seconds * 1000))
  end
  redis.call('SET', key, new, 'PX', life + SLACK)
end
