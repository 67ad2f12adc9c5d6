-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- reset forgets a key: KEYS[1] has the windows, KEYS[2] the leases.
return call('DEL', KEYS[1], KEYS[2])
