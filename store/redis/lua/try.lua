-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- What the checks share. try runs a command, and remembers its name if the user may not; verdict is the reply of the check. The
-- words are those of Redis 7.0, and of Redis since 7.2 and Valkey.
local denied = ''
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  local problem = type(reply) == 'table' and reply.err
  if not problem then return end
  if not string.find(problem, 'The user executing the script', 1, true) and not string.find(problem, 'ACL failure in script', 1, true) then
    call(name, ...) -- fails again, and ends the script as it would any other
  end
  denied = denied .. ' +' .. string.lower(name)
end
local function verdict()
  if denied ~= '' then return redis.error_reply('NOPERM the user lacks' .. denied) end
  return 'OK'
end
