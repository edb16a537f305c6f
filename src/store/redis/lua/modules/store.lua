-- Shared by all scripts: the clock, and the opening of the partition, which each script does first.
--
-- Gives  LOOK, READ, WRITE, open, head, append, ledger_is_gone, clock, digits, server_time,
-- server_replid
--
-- KEYS[1]  partition
-- ARGV[1]  clock: microseconds, the last moment that the calling service has seen; or `=` and the
--          moment of a test clock
-- ARGV[2]  store id (32 characters), then what the service witnesses: for each fork under which it
--          has acknowledged entries, the
--          replication id of that fork (40 characters), `:`, the number of the last of these
--          entries, and a blank; or `*` from
--          `tombola recover`, which works in halted partitions
--
-- A fork begins whenever another server, or another life of a server, comes to serve the partition:
-- the server's replication id differs from the one that the partition keeps. `fork.lua` then
-- records the fork. The partition's fields of it:
--   replid          replication id of the server of the current fork
--   fork:<replid>   of each fork: the number of its last entry; empty for the current fork; `*`
--   where losses were accepted
--   mark            number of the fork in unit ids and derivations; 0 before the first fork
--   opens           when the current fork was recorded and from when on it takes writes, by the
--   server's own TIME; absent afterwards
--   halt            why the partition is halted (see `lost_entries`), and the server's time then
--
-- The partition's field `min_reader` is the lowest format that a version must know to read it;
-- absent in data of format 2.
--
-- Instead of its own reply, a script may reply {now, letter, ...} and nothing is written:
--   'L'            the store is not the one it was
--   'H', halt      the partition is halted: acknowledged entries are lost
--   'K'            another server serves the partition: a fork must be recorded first
--   'W', micros    the fork opens only after this time
--   'N', format    the data are of this format, which is newer than this version's

-- What a script may do in a partition that is halted or has forked: LOOK always works, READ unless
-- it is halted, WRITE only in the partition's current fork.
local LOOK, READ, WRITE = 1, 2, 3

-- Whole numbers beyond 14 digits would come out in exponent form.
local function digits(number)
    return string.format('%.0f', number)
end

-- The server's time in microseconds.
local function server_time()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

-- The store's clock in microseconds. It is never behind `last`, the moment of the partition's last
-- entry, nor behind the moment that the calling service has seen. Besides the server's own time,
-- which is read only if it is needed.
local function clock(last)
    local seen, test = tonumber(ARGV[1]) or 0, tonumber(string.match(ARGV[1], '^=(%d+)$'))
    local time = not test and server_time() or nil
    return math.max(test or time, seen, tonumber(last) or 0), time
end

-- The replication id of this server. ROLE, which is shorter, is not allowed in scripts.
local function server_replid()
    return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- The first of the service's witnesses that this partition contradicts: the service has
-- acknowledged an entry that is not here. As text: replication id, number of the last acknowledged
-- entry, number of the last entry of that fork here (or -: the fork is not known here).
local function lost_entries(sequence, replid)
    for fork, number in string.gmatch(string.sub(ARGV[2], 33), '(%x+):(%d+) ') do
        local base = sequence
        if fork ~= replid then
            base = redis.call('HGET', KEYS[1], 'fork:' .. fork)
        end
        if not base then
            return fork .. ' ' .. number .. ' -'
        elseif base ~= '*' and tonumber(number) > tonumber(base) then
            return fork .. ' ' .. number .. ' ' .. digits(tonumber(base))
        end
    end
    return nil
end

-- Microseconds until a fork opens. None if the server's clock has been set back since: it says
-- nothing about the pause then.
local function pause_of(opens, time)
    local recorded, from = string.match(opens, '^(%d+) (%d+)$')
    return time >= tonumber(recorded) and tonumber(from) - time or 0
end

-- Opens the partition. The result has a `refusal`, which is the script's reply, or: `now`,
-- `sequence` (number of the last entry), `replid`, `mark`.
local function open(access)
    local store, sequence, last, replid, mark, opens, halt, min_reader = unpack(
        redis.call('HMGET', KEYS[1], 'store', 'sequence', 'last', 'replid', 'mark', 'opens', 'halt', 'min_reader'))
    local now, time = clock(last)
    if store ~= string.sub(ARGV[2], 1, 32) then
        return { refusal = { digits(now), 'L' } }
    elseif min_reader and tonumber(min_reader) > FORMAT then
        return { refusal = { digits(now), 'N', min_reader } }
    end
    sequence = tonumber(sequence)
    if not halt then
        halt = lost_entries(sequence, replid)
        if halt then
            halt = halt .. ' ' .. digits(now)
            redis.call('HSET', KEYS[1], 'halt', halt)
        end
    end
    if halt and access ~= LOOK and string.sub(ARGV[2], 33) ~= '*' then
        return { refusal = { digits(now), 'H', halt } }
    end
    if access == WRITE then
        if server_replid() ~= replid then
            return { refusal = { digits(now), 'K' } }
        end
        local pause = opens and pause_of(opens, time or server_time()) or 0
        if pause > 0 then
            return { refusal = { digits(now), 'W', digits(pause) } }
        elseif opens then
            redis.call('HDEL', KEYS[1], 'opens')
        end
    end
    return { now = now, sequence = sequence, replid = replid, mark = mark or '0' }
end

-- The first part of a writing script's reply: the store's clock, the replication id of the fork,
-- and the number of the last entry that the script has written (0: none).
local function head(partition, written)
    return digits(partition.now) .. ' ' .. partition.replid .. ' ' .. digits(written)
end

-- Appends an item to the ledger, KEYS[2]; its id is the number of its last entry. The first item
-- that a script appends is its first write: false means that the ledger was deleted, and nothing is
-- written.
local function append(partition, number, ...)
    if partition.sequence > 0 then
        return redis.call('XADD', KEYS[2], 'NOMKSTREAM', digits(number) .. '-0', ...)
    end
    return redis.call('XADD', KEYS[2], digits(number) .. '-0', ...)
end

-- The reply if `append` gives false.
local function ledger_is_gone()
    return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is gone: the ledger was deleted, restore it')
end

return {
    LOOK = LOOK, READ = READ, WRITE = WRITE, open = open, head = head, append = append, ledger_is_gone = ledger_is_gone, clock = clock,
    digits = digits, server_time = server_time, server_replid = server_replid,
}
