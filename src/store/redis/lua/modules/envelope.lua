-- An envelope of a batch: what the call says of it, what the partition holds of it, and its packets
-- that may be grabbed.
--
-- Reads  clock; KEYS and ARGV as grab.lua describes them
-- Gives  read_envelope, open_envelope, find_had, read_due
--
-- An envelope has what the functions here set.
local OPEN, REMOVED = 0, 2 -- states of an envelope; refunded is 1

-- Reads an envelope from the call; besides, the key and the argument after it.
local function read_envelope(key, arg)
    local id, mark, buckets, users, bucket_of, earliest, not_after, allowed =
        unpack(ARGV, arg, arg + 7)
    buckets = tonumber(buckets)
    local e = {
        key = KEYS[key], packets_key = KEYS[key + 1], allowed_key = KEYS[key + 2],
        first_bucket = key + 3, buckets = buckets,
        id = id, mark = mark, users = { cmsgpack.unpack(users) }, bucket_of = bucket_of,
        earliest = tonumber(earliest), not_after = not_after, allowed = allowed,
        allowed_buckets = {},
        is_full = false, -- too many entries are not settled: no packet is taken
        -- what `open_envelope` finds
        created = 0, created_sequence = 0, start = 0, packets = 0, filled = 0, taken = 0,
        amount = 0, currency = '',
        is_rain = false, is_restricted = false, is_over = false, is_refund_due = false,
    }
    return e, key + 3 + buckets, arg + 8
end

-- Reads an envelope from the partition. The result is a letter if it cannot be grabbed from.
local function open_envelope(e, now)
    local gate, grabbed, created_sequence =
        unpack(redis.call('HMGET', e.key, 'gate', 'grabbed', 'created'))
    if not gate and not created_sequence then
        return 'M'
    end
    local mark, state, created, start, expiry, packets, filled, is_rain, restricted, currency =
        cmsgpack.unpack(gate)
    if type(currency) ~= 'string' then
        error('the gate is none', 0)
    elseif state == REMOVED then
        return 'M'
    elseif mark ~= e.mark then
        return 'V'
    end
    local taken, amount = 0, 0
    if grabbed then
        taken, amount = cmsgpack.unpack(grabbed)
    end
    e.created_sequence = tonumber(created_sequence)
    if not (e.created_sequence and type(amount) == 'number') then
        error('its counts are none', 0)
    end
    e.taken, e.amount, e.filled, e.packets = taken, amount, filled, packets
    e.created, e.start, e.currency = created, start, currency
    e.is_rain, e.is_restricted = is_rain == 1, restricted > 0
    e.is_over = state ~= OPEN or now >= expiry
    e.is_refund_due = state == OPEN and now >= expiry
    return nil
end

-- The users in each bucket.
local function users_by_bucket(e)
    local users, bucket_of = e.users, e.bucket_of
    if e.buckets == 1 then
        return { users }
    end
    local by_bucket = {}
    for bucket = 1, e.buckets do
        by_bucket[bucket] = {}
    end
    for index = 1, #users do
        local some = by_bucket[string.byte(bucket_of, index) + 1]
        some[#some + 1] = users[index]
    end
    return by_bucket
end

-- What users have of the envelope from before, by user, false for nothing.
local function find_had(e)
    local had, by_bucket = {}, users_by_bucket(e)
    for bucket = 1, e.buckets do
        local some = by_bucket[bucket]
        local values = redis.call('HMGET', KEYS[e.first_bucket + bucket - 1], unpack(some))
        for index = 1, #some do
            had[some[index]] = values[index]
        end
    end
    return had
end

-- Packets that may be taken now, as they are stored, and as numbers and amounts in turn.
local function read_due(e, wanted, digits_now)
    local due = redis.call('ZRANGE', e.packets_key, '-inf', digits_now, 'BYSCORE', 'LIMIT', '0',
        digits(wanted))
    local values = { cmsgpack.unpack(table.concat(due)) }
    for index = 1, #due do
        if values[index * 2 - 1] ~= e.taken + index then
            error('packet ' .. e.taken + index .. ' is missing', 0)
        end
    end
    -- Of an envelope that is no rain every packet is due; of a rain all must be there.
    local waiting = e.filled - e.taken
    if #due < math.min(wanted, waiting)
        and not (e.is_rain and redis.call('ZCARD', e.packets_key) == waiting) then
        error('packet ' .. e.taken + #due + 1 .. ' is missing', 0)
    end
    return due, values
end

return read_envelope, open_envelope, find_had, read_due
