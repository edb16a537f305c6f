-- The grabs of one envelope, in the order given. Everything is decided here; grab.lua writes it.
--
-- Reads  envelope, sums; ARGV and KEYS[5] as grab.lua describes them
-- Gives  grab_batch
local bytes, byte_of = struct.pack, string.byte
local ALLOWED, DIGEST = 14, 12 -- bytes of one who may grab in the call, and those of the digest

-- A moment in seven bytes, from the creation on.
local function pack_moment(since)
    return bytes('>I3I4', math.floor(since / 4294967296), since % 4294967296)
end

-- A number as msgpack without its last byte.
local function head_of(number)
    if number < 65536 then
        return string.sub(bytes('>BI2', 0xcd, number), 1, 2)
    elseif number < 4294967296 then
        return string.sub(bytes('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(bytes('>BI4I4', 0xcf, math.floor(number / 4294967296), number % 4294967296),
        1, 8)
end

-- Whether a user is among those who may grab. `number` is the index of the grab.
local function is_allowed(e, number)
    local from = (number - 1) * ALLOWED + 1
    local bucket = struct.unpack('>I2', e.allowed, from)
    local digest = string.sub(e.allowed, from + 2, from + ALLOWED - 1)
    local some = e.allowed_buckets[bucket]
    if some == nil then
        some = redis.call('HGET', e.allowed_key, bucket) or ''
        e.allowed_buckets[bucket] = some
    end
    local at = string.find(some, digest, 1, true)
    while at and at % DIGEST ~= 1 do
        at = string.find(some, digest, at + 1, true)
    end
    return at
end

local function is_late(e, number, now)
    local high, low = struct.unpack('>I4I4', e.not_after, number * 8 - 7)
    return now > high * 4294967296 + low
end

-- Why a user gets no packet (see grab.lua) of an envelope of which `taken` are taken; nil if there
-- is no reason.
local function refusal_of_grab(e, number, now, taken)
    if now > e.earliest and is_late(e, number, now) then
        return 'P'
    elseif e.is_restricted and not is_allowed(e, number) then
        return 'N'
    elseif now < e.start then
        return 'S'
    elseif e.is_over then
        return 'T'
    elseif taken == e.packets then
        return 'E'
    elseif e.is_full then
        return 'B'
    end
    return taken == e.filled and 'F' or nil
end

-- The reply to a user who has a packet from before.
local function reply_had(before)
    if #before > 65535 then
        error('a grab is none', 0)
    end
    return 'A' .. bytes('>I2', #before) .. before
end

-- Decides all grabs; `sequence` is the number of the last entry. The replies; how many packets are
-- taken and their amount; their users, what is written of them for each bucket, and the packets as
-- they are stored.
local function decide(e, sequence, now, digits_now)
    local users, bucket_of, had = e.users, e.bucket_of, find_had(e)
    local replies, writes, grabbers = {}, {}, {}
    local count, amount, head, head_until = 0, 0, '', -1
    local taken, filled, created_sequence, char = e.taken, e.filled, e.created_sequence, string.char
    local may_refuse = now > e.earliest or e.is_restricted or now < e.start or e.is_over
        or e.is_full
    local due, values, moment
    for number = 1, #users do
        local user, reply = users[number]
        local before = had[user]
        if before then
            reply = reply_had(before)
        elseif may_refuse or taken == filled then
            reply = refusal_of_grab(e, number, now, taken)
        end
        if not reply then
            if not due then
                due, values = read_due(e, #users - number + 1, digits_now)
                moment = pack_moment(now - e.created)
            end
            local packet = due[count + 1]
            if not packet then
                reply = 'Y'
            else
                count, taken, sequence = count + 1, taken + 1, sequence + 1
                amount = amount + values[count * 2]
                local since = sequence - created_sequence
                if since > head_until then
                    head, head_until = head_of(since), since - since % 256 + 255
                end
                local value = packet .. moment .. head .. char(since % 256)
                local bucket = byte_of(bucket_of, number) + 1
                local words = writes[bucket]
                if not words then
                    words = {}
                    writes[bucket] = words
                end
                local length = #words
                words[length + 1], words[length + 2] = user, value
                grabbers[count], had[user] = user, value
                local low = taken < MANY_GRABS and LOW_PACKETS or LOW_PACKETS_OF_MANY
                reply = (filled - taken == low and filled < e.packets and 'W' or 'G') .. value
            end
        end
        replies[number] = reply
    end
    return replies, count, amount, grabbers, writes, due
end

-- Grabs of an envelope; `last` is the number of the last entry. `checked` has the currencies whose
-- sums are numbers, and KEYS[3] once the lists of envelopes are known to be lists. The result is
-- the reply, and what is written; no such item if no packet is taken.
local function grab_batch(e, last, now, digits_now, checked)
    local letter = open_envelope(e, now)
    if letter then
        return letter, nil
    end
    local replies, count, amount, grabbers, writes, due = decide(e, last, now, digits_now)
    local taken, currency, item = e.taken + count, e.currency, nil
    if count > 0 then
        item = {
            envelope = e, writes = writes, count = count, last = last + count,
            is_last = taken == e.packets, currency = currency,
            amount = amount, grabbed = cmsgpack.pack(taken, e.amount + amount, now),
            users = table.concat(grabbers), packets = table.concat(due, '', 1, count),
        }
        if item.is_last and not checked[KEYS[3]] then
            redis.call('ZCARD', KEYS[3])
            redis.call('ZCARD', KEYS[4])
            checked[KEYS[3]] = true
        end
        if not checked[currency] then
            check_sums(KEYS[5], { currency .. ':grabbed', currency .. ':waiting',
                currency .. ':open' })
            checked[currency] = true
        end
    end
    return (e.is_refund_due and taken < e.packets and '1' or '0') .. table.concat(replies), item
end

return grab_batch
