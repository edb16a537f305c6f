-- Shared by all scripts: the opening of the partition, which each script does first.
--
-- Reads  clock
-- Gives  open_to_look, open_to_read, allow_full_memory
--        What may be done in a partition that is halted or has forked: looking always works,
--        reading unless it is halted, writing (see writing.lua) only in the current fork.
--
-- KEYS[1]  partition
-- ARGV[1]  clock (see clock.lua)
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
--   if losses were accepted
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

-- Lets this script write although the server has reached its memory limit; call it before the first
-- write. Redis then refuses a command that may need memory, but only as long as the script has not
-- written: a script must not be broken off halfway. To remove a field that does not exist needs no
-- memory and changes nothing, and yet it counts as a write. For writes of a few bytes without which
-- a full server could not become less full, or could not go on later.
local function allow_full_memory()
    redis.call('HDEL', KEYS[1], 'none')
end

-- The first of the service's witnesses that this partition contradicts: the service has
-- acknowledged an entry that is not here. As text: replication id, number of the last acknowledged
-- entry, number of the last entry of that fork here (or -: the fork is not known here).
local function lost_entries(sequence, replid)
    -- Most services witness the current fork only.
    if replid and string.find(ARGV[2], replid, 33, true) == 33 then
        local number = tonumber(string.sub(ARGV[2], 74))
        if number and number <= sequence then
            return nil
        end
    end
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

-- Opens the partition. The result is the script's reply if it is refused; else nil, the store's
-- clock, the number of the last entry, the replication id and the mark of the fork, the format of
-- the data; besides, the partition's `opens`, and the server's time if it was read.
local function open(is_look)
    local store, sequence, last, replid, mark, opens, halt, min_reader = unpack(
        redis.call('HMGET', KEYS[1], 'store', 'sequence', 'last', 'replid', 'mark', 'opens', 'halt',
            'min_reader'))
    local now, time = read_clock(last)
    local format = tonumber(min_reader or 0)
    if store ~= string.sub(ARGV[2], 1, 32) then
        return { digits(now), 'L' }
    elseif format > FORMAT then
        return { digits(now), 'N', min_reader }
    end
    sequence = tonumber(sequence)
    if not halt then
        halt = lost_entries(sequence, replid)
        if halt then
            halt = halt .. ' ' .. digits(now)
            allow_full_memory()
            redis.call('HSET', KEYS[1], 'halt', halt)
        end
    end
    if halt and not is_look and string.sub(ARGV[2], 33) ~= '*' then
        return { digits(now), 'H', halt }
    end
    return nil, now, sequence, replid, mark or '0', format, opens, time
end

local function open_to_look()
    return open(true)
end

local function open_to_read()
    return open(false)
end

return open_to_look, open_to_read, allow_full_memory
