-- Shared by the scripts that write: the opening of the partition for writing, the ledger, and how a
-- reply begins.
--
-- Reads  clock, store
-- Gives  open_to_write, server_replid, reply_head, number_of_fork, append, numbered, last_number,
--        ledger_is_gone

-- The replication id of this server. ROLE, which is shorter, is not allowed in scripts.
local function server_replid()
    return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- Microseconds until a fork opens. None if the server's clock has been set back since: it says
-- nothing about the pause then.
local function pause_of(opens, time)
    local recorded, from = string.match(opens, '^(%d+) (%d+)$')
    return time >= tonumber(recorded) and tonumber(from) - time or 0
end

-- Opens the partition for writing; the result is that of `open_to_read`.
local function open_to_write()
    local refusal, now, last, replid, mark, format, opens, time = open_to_read()
    if refusal then
        return refusal
    end
    local is_its_server = replid and string.find(
        redis.call('INFO', 'replication'), 'master_replid:' .. replid .. '\r', 1, true)
    if not is_its_server then
        return { digits(now), 'K' }
    elseif opens then
        local pause = pause_of(opens, time or server_time())
        if pause > 0 then
            return { digits(now), 'W', digits(pause) }
        end
        redis.call('HDEL', KEYS[1], 'opens')
    end
    return nil, now, last, replid, mark, format
end

-- The first part of a reply that names the fork: the store's clock, the replication id of the fork,
-- and the number of the last entry that the script has written (0: none). The clock alone if there
-- has been no fork yet.
local function reply_head(now, replid, written)
    if not replid then
        return digits(now)
    end
    return digits(now) .. ' ' .. replid .. ' ' .. digits(written)
end

-- The number of the first entry of a fork. It is far beyond `last`, and follows the store's clock:
-- so it is beyond all that other servers have given out before, also if the data have lost them, as
-- far as the clocks of the servers agree.
-- `random` is from 1 to 2^20, for two servers that fork at the same time.
local function number_of_fork(last, now, random)
    return math.max(last + 2 ^ 20, math.floor(now / 1000000) * 2 ^ 20) + random
end

-- Appends an item to the ledger, KEYS[2]; its id is the number of its last entry. `last` is the
-- number of the last entry before this script. The first item that a script appends is its first
-- write: false means that the ledger was deleted, and nothing is written.
local function append(last, number, ...)
    if last > 0 then
        return redis.call('XADD', KEYS[2], 'NOMKSTREAM', digits(number) .. '-0', ...)
    end
    return redis.call('XADD', KEYS[2], digits(number) .. '-0', ...)
end

-- The last fields of an item: the number of its last entry within the campaign, and the mark of the
-- fork; none in data whose readers do not know them.
local function numbered(format, number, mark)
    if format < FULL_ENTRIES_FORMAT then
        return
    elseif mark == '0' then
        return 'i', digits(number)
    end
    return 'i', digits(number), 'f', mark
end

-- The number of the last entry under a key: of a campaign, or of the partition, which has the count
-- of all other entries.
local function last_number(key)
    local number = tonumber(redis.call('HGET', key, 'entries') or 0)
    if not number then
        error(key .. ': entries is no number', 0)
    end
    return number
end

-- The reply if `append` gives false.
local function ledger_is_gone()
    return redis.error_reply('WRONGTYPE ' .. KEYS[2]
        .. ' is gone: the ledger was deleted, restore it')
end

return open_to_write, server_replid, reply_head, number_of_fork, append, numbered, last_number,
    ledger_is_gone
