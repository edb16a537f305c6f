-- Forgets draws that are older than the request memory: nobody may ask for them any more.
--
-- It goes through all campaigns: first through the records of their users; then, if one of these
-- has or had older draws, through the buckets of older draws. A call does a part of this. The next
-- round begins when half of the memory's time has passed. If services remember for different times,
-- the longest counts. Damaged data stay as they are: draws report them.
--
-- A call may stop within a hash or bucket: the next one goes on from the cursor. If another server,
-- which has the fields in another order, takes over meanwhile, some of them are left for the next
-- round.
--
-- KEYS  partition, campaigns, then of one campaign: long draws, some of its hashes of users or of
--       its buckets of older draws
-- ARGV  clock, store id and witnesses, request memory in microseconds, that campaign
--       the number of the first of these hashes or buckets, the number of all hashes of users, the
--       number of all hashes and buckets (in numbering, hashes come first)
-- reply {head, number of the hash or bucket to go on with, campaign}; the campaign is empty if
--       there is nothing to forget for now. The number comes first: one letter in its place would
--       be a refusal, and the id of a campaign may be one letter.
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
local campaign, number, cursor, older, began, memory, memory_before =
    unpack(redis.call('HMGET', KEYS[1], 'forgetting', 'number', 'cursor', 'older', 'began',
        'memory', 'memory_before'))
local INTERVAL_MIN = 600 * 1000000 -- in which every service has sent its request memory
local FIELDS = 250 -- about as many are looked at in one call: no draw is made meanwhile
local BUCKETS = 16 -- asked for at once: most campaigns have draws in few of their buckets
campaign, number, cursor = campaign or '', tonumber(number or 0), cursor or '0'
older = tonumber(older or OLDER) -- what its records have so far: OLDER or 0
began, memory = tonumber(began or 0), tonumber(memory or 0)
memory = math.max(memory, tonumber(ARGV[3]))
local longest = math.max(memory, tonumber(memory_before or 0))
local oldest = now - longest

-- A record without its latest draw, if that is too old. It notes whether there are older ones.
local function without_latest(kept)
    local has, day, _, _, _, _, _, _, _, length = read_record(kept)
    if has % LATEST == OLDER then
        older = OLDER
    end
    if has < LATEST or start_of(day) + struct.unpack('>I5', kept, length + 1) >= oldest then
        return nil
    end
    return struct.pack('>I3', struct.unpack('>I3', kept) - LATEST) .. string.sub(kept, 4, length)
end

-- About `count` fields of a hash, with their values, from the cursor on; and the error if the key
-- has another type. Moves the cursor to the fields that follow, or to 0 at the end.
local function scan(hash, count)
    local found = redis.pcall('HSCAN', hash, cursor, 'COUNT', count)
    cursor = found[1] or '0'
    return found[2] or {}, found.err
end

-- Forgets in about `count` records of a hash; returns how many it has looked at.
local function forget_latest(users, count)
    local fields, err = scan(users, count)
    if err then
        older = OLDER -- it cannot be known
    end
    local shorter = {}
    for index = 1, #fields, 2 do
        local is_sound, kept = pcall(without_latest, fields[index + 1])
        if not is_sound then
            older = OLDER
        elseif kept then
            shorter[#shorter + 1] = fields[index]
            shorter[#shorter + 1] = kept
        end
    end
    for from = 1, #shorter, 1000 do
        redis.call('HSET', users, unpack(shorter, from, math.min(from + 999, #shorter)))
    end
    return #fields / 2
end

-- Whether a draw in a field of its own is too old.
local function is_old(draw)
    return struct.unpack('>I7', draw) < oldest
end

-- Takes a draw out of a bucket if it is too old.
local function forget_draw(bucket, field, draw)
    if draw == '' then
        local long = redis.call('HGET', KEYS[3], field)
        if not long or is_old(long) then
            redis.call('HDEL', KEYS[3], field)
            redis.call('HDEL', bucket, field)
        end
    elseif is_old(draw) then
        redis.call('HDEL', bucket, field)
    end
end

-- Forgets in about `count` draws of a bucket; returns how many it has looked at.
local function forget_older(bucket, count)
    local fields = scan(bucket, count)
    for index = 1, #fields, 2 do
        pcall(forget_draw, bucket, fields[index], fields[index + 1])
    end
    return #fields / 2
end

-- Goes on with the campaign that follows this one, if there is one.
local function begin_after(id)
    campaign = redis.call('ZRANGEBYLEX', KEYS[2], '(' .. id, '+', 'LIMIT', 0, 1)[1] or ''
    number, cursor, older = 0, '0', 0
end

allow_full_memory()
if campaign == '' then
    if now - began >= math.max(longest / 2, INTERVAL_MIN) then
        began, memory, memory_before = now, 0, memory
        begin_after('')
    end
elseif campaign == ARGV[4] and number == tonumber(ARGV[5]) then
    local key, looked_at, hashes = 4, 0, tonumber(ARGV[6])
    while key <= #KEYS and looked_at < FIELDS do
        if number < hashes then
            looked_at = looked_at + forget_latest(KEYS[key], FIELDS - looked_at)
            if cursor == '0' then
                key, number = key + 1, number + 1
            end
        else
            local first, beyond = key, math.min(key + BUCKETS, #KEYS + 1)
            if cursor == '0' and redis.call('EXISTS', unpack(KEYS, key, beyond - 1)) == 0 then
                key = beyond
            end
            while key < beyond and looked_at < FIELDS do
                looked_at = looked_at + forget_older(KEYS[key], FIELDS - looked_at)
                if cursor == '0' then
                    key = key + 1
                end
            end
            number = number + key - first
        end
    end
    if number >= tonumber(ARGV[7]) or number >= hashes and older == 0 then
        begin_after(campaign)
    end
end
redis.call('HSET', KEYS[1], 'forgetting', campaign, 'number', number, 'cursor', cursor, 'older',
    older, 'began', digits(began), 'memory', digits(memory), 'memory_before',
    digits(tonumber(memory_before or 0)))
return { reply_head(now, replid, 0), digits(number), campaign }
