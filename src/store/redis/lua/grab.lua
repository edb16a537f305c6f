-- Grabs of users of envelopes of one partition, in the order given. Everything is decided first and
-- written last; every key that is written is read before, so that one of a wrong type stops its
-- envelope with nothing half done.
--
-- KEYS  partition, ledger, open envelopes, settled envelopes, sums of envelopes
--       for each envelope: envelope, packets, allowed, then the buckets of those who grab
-- ARGV  clock, store id and witnesses, number of envelopes
--       for each envelope: id, mark, number of buckets, and of all grabs together:
--       users, msgpack one after another; the bucket of each in a byte, from 0
--       the earliest moment after which a packet must not be taken; that moment of each, in eight
--       bytes
--       where not everyone may grab: of each bucket and digest among those who may, in two and
--       twelve bytes
-- reply {head, then for each envelope: the replies to its grabs, one after another, behind '1'
--       where its refund is due, else '0'};
--       or why there are none: 'M' no such envelope, 'V' another one than the mark tells, 'X' and
--       what is wrong
--       a grab: 'G' and the packet: grabbed; 'W' and the packet: grabbed, and few wait now; 'A',
--       the length of what follows in two
--       bytes, and the packet: had from before;
--       'P' past its deadline; 'N' not allowed; 'S' not started; 'T' expired; 'E' empty; 'F' needs
--       a fill; 'Y' not yet released
--       a packet, as it lies in the bucket: number, amount; moment in seven bytes and sequence,
--       both from the creation on (codec.rs)

local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
local now, sequence = partition.now, partition.sequence
redis.call('XLEN', KEYS[2])
local OPEN, REMOVED = 0, 2 -- states of an envelope; refunded is 1
local ALLOWED, DIGEST = 14, 12 -- bytes told of one who may grab, and those of the digest

local pack, unpack_values = cmsgpack.pack, cmsgpack.unpack
local call, floor, char, byte_of, bytes = redis.call, math.floor, string.char, string.byte, struct.pack
local digits_now = store.digits(now)
local key, arg = 6, 4 -- the next of each
local items, checked = {}, {} -- what is written; currencies whose sums are numbers

-- A moment in seven bytes, from the creation on.
local function pack_moment(since)
    return bytes('>I3I4', floor(since / 4294967296), since % 4294967296)
end

-- A number as msgpack without its last byte.
local function head_of(number)
    if number < 65536 then
        return string.sub(bytes('>BI2', 0xcd, number), 1, 2)
    elseif number < 4294967296 then
        return string.sub(bytes('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(bytes('>BI4I4', 0xcf, floor(number / 4294967296), number % 4294967296), 1, 8)
end

-- What users have of the envelope from before, by user, false for nothing.
local function find_had(e)
    local had, users, bucket_of = {}, e.users, e.bucket_of
    local by_bucket = { users }
    if e.buckets > 1 then
        for bucket = 1, e.buckets do
            by_bucket[bucket] = {}
        end
        for place = 1, #users do
            local some = by_bucket[byte_of(bucket_of, place) + 1]
            some[#some + 1] = users[place]
        end
    end
    for bucket = 1, e.buckets do
        local some = by_bucket[bucket]
        local values = call('HMGET', KEYS[e.first_bucket + bucket - 1], unpack(some))
        for place = 1, #some do
            had[some[place]] = values[place]
        end
    end
    return had
end

-- Packets that may be taken now, as they are stored and as numbers and amounts in turn.
local function read_due(e, wanted)
    local due = call('ZRANGE', e.packets_key, '-inf', digits_now, 'BYSCORE', 'LIMIT', 0, wanted)
    local told = { unpack_values(table.concat(due)) }
    for place = 1, #due do
        if told[place * 2 - 1] ~= e.taken + place then
            error('packet ' .. e.taken + place .. ' is missing', 0)
        end
    end
    -- Of an envelope that is no rain every packet is due; of a rain all must be there.
    if #due < math.min(wanted, e.filled - e.taken) and not (e.is_rain and call('ZCARD', e.packets_key) == e.filled - e.taken) then
        error('packet ' .. e.taken + #due + 1 .. ' is missing', 0)
    end
    return due, told
end

-- Whether the user at this place is among those who may grab.
local function is_allowed(e, place)
    local from = (place - 1) * ALLOWED + 1
    local bucket = struct.unpack('>I2', e.allowed, from)
    local digest = string.sub(e.allowed, from + 2, from + ALLOWED - 1)
    local some = e.allowed_buckets[bucket]
    if some == nil then
        some = call('HGET', e.allowed_key, bucket) or ''
        e.allowed_buckets[bucket] = some
    end
    local at = string.find(some, digest, 1, true)
    while at and at % DIGEST ~= 1 do
        at = string.find(some, digest, at + 1, true)
    end
    return at
end

local function not_after(e, place)
    local high, low = struct.unpack('>I4I4', e.not_after, place * 8 - 7)
    return high * 4294967296 + low
end

local function grab_all(e)
    local gate, grabbed, created_sequence = unpack(call('HMGET', e.key, 'gate', 'grabbed', 'created'))
    if not gate and not created_sequence then
        return 'M'
    end
    local mark, state, created, start, expiry, packets, filled, is_rain, restricted, currency = unpack_values(gate)
    if type(currency) ~= 'string' then
        error('the gate is none', 0)
    elseif state == REMOVED then
        return 'M'
    elseif mark ~= e.mark then
        return 'V'
    end
    local taken, amount = 0, 0
    if grabbed then
        taken, amount = unpack_values(grabbed)
    end
    created_sequence = tonumber(created_sequence)
    if not (created_sequence and type(amount) == 'number') then
        error('its counts are none', 0)
    end
    e.taken, e.filled, e.is_rain = taken, filled, is_rain == 1
    local users, bucket_of, earliest = e.users, e.bucket_of, e.earliest
    local had, replies, taken_before, amount_before = find_had(e), {}, taken, amount
    local is_over = state ~= OPEN or now >= expiry
    local due, told, writes, grabbers
    local moment, head, head_until = '', '', -1

    for place = 1, #users do
        local user = users[place]
        local before = had[user]
        local answer
        if before then
            if #before > 65535 then
                error('a grab is none', 0)
            end
            answer = 'A' .. bytes('>I2', #before) .. before
        elseif now > earliest and now > not_after(e, place) then
            answer = 'P'
        elseif restricted > 0 and not is_allowed(e, place) then
            answer = 'N'
        elseif now < start then
            answer = 'S'
        elseif is_over then
            answer = 'T'
        elseif taken == packets then
            answer = 'E'
        elseif taken == filled then
            answer = 'F'
        else
            if not due then
                due, told = read_due(e, #users - place + 1)
                moment, writes, grabbers = pack_moment(now - created), {}, {}
                for bucket = 1, e.buckets do
                    writes[bucket] = {}
                end
            end
            local count = taken - taken_before + 1
            local packet = due[count]
            if not packet then
                answer = 'Y'
            else
                taken, sequence = taken + 1, sequence + 1
                amount = amount + told[count * 2]
                local since = sequence - created_sequence
                if since > head_until then
                    head, head_until = head_of(since), since - since % 256 + 255
                end
                local value = packet .. moment .. head .. char(since % 256)
                local list = writes[byte_of(bucket_of, place) + 1]
                local length = #list
                list[length + 1], list[length + 2] = user, value
                grabbers[count] = user
                had[user] = value
                local low = taken < MANY_GRABS and LOW_PACKETS or LOW_PACKETS_OF_MANY
                answer = (filled - taken == low and filled < packets and 'W' or 'G') .. value
            end
        end
        replies[place] = answer
    end

    if taken > taken_before then
        local is_last = taken == packets
        if is_last then
            call('ZSCORE', KEYS[3], e.id)
            call('ZSCORE', KEYS[4], e.id)
        end
        local count = taken - taken_before
        items[#items + 1] = {
            envelope = e, writes = writes, count = count, last = sequence, is_last = is_last, currency = currency,
            amount = amount - amount_before, grabbed = pack(taken, amount, now),
            users = table.concat(grabbers), packets = table.concat(due, '', 1, count),
        }
        if not checked[currency] then
            sums.check(KEYS[5], { currency .. ':grabbed', currency .. ':waiting', currency .. ':open' })
            checked[currency] = true
        end
    end
    local is_refund_due = state == OPEN and now >= expiry and taken < packets
    return (is_refund_due and '1' or '0') .. table.concat(replies)
end

local function read_envelope()
    local buckets = tonumber(ARGV[arg + 2])
    local e = {
        key = KEYS[key], packets_key = KEYS[key + 1], allowed_key = KEYS[key + 2], first_bucket = key + 3, buckets = buckets,
        id = ARGV[arg], mark = ARGV[arg + 1], users = { unpack_values(ARGV[arg + 3]) }, bucket_of = ARGV[arg + 4],
        earliest = tonumber(ARGV[arg + 5]), not_after = ARGV[arg + 6], allowed = ARGV[arg + 7], allowed_buckets = {},
    }
    key, arg = key + 3 + buckets, arg + 8
    return e
end

local reply = { digits_now }
for place = 1, tonumber(ARGV[3]) do
    local e = read_envelope()
    local sequence_before, items_before = sequence, #items
    local is_sound, answer = pcall(grab_all, e)
    if not is_sound then
        sequence, items[items_before + 1] = sequence_before, nil
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    reply[place + 1] = answer
end

reply[1] = store.head(partition, #items > 0 and sequence or 0)
if #items == 0 then
    return reply
end
for _, item in ipairs(items) do
    local id = item.envelope.id
    if not store.append(partition, item.last, 'e', id, 't', digits_now, 'n', item.count, 'g', item.users, 'p', item.packets) then
        return store.ledger_is_gone()
    end
end
local totals = {}
for _, item in ipairs(items) do
    local e = item.envelope
    for bucket, list in ipairs(item.writes) do
        if #list > 0 then
            call('HSET', KEYS[e.first_bucket + bucket - 1], unpack(list))
        end
    end
    call('HSET', e.key, 'grabbed', item.grabbed)
    call('ZREMRANGEBYRANK', e.packets_key, 0, item.count - 1)
    local sum = totals[item.currency] or { open = 0, grabbed = 0 }
    totals[item.currency] = sum
    if item.is_last then
        call('ZREM', KEYS[3], e.id)
        call('ZADD', KEYS[4], digits_now, e.id)
        sum.open = sum.open - 1
    end
    -- Beyond 2^53 they would not be exact.
    if sum.grabbed + item.amount > 9007199254740991 then
        sums.add(KEYS[5], item.currency .. ':grabbed', store.digits(sum.grabbed))
        sums.add(KEYS[5], item.currency .. ':waiting', store.digits(-sum.grabbed))
        sum.grabbed = 0
    end
    sum.grabbed = sum.grabbed + item.amount
end
call('HSET', KEYS[1], 'sequence', store.digits(sequence), 'last', digits_now)
for currency, sum in pairs(totals) do
    sums.add(KEYS[5], currency .. ':grabbed', store.digits(sum.grabbed))
    sums.add(KEYS[5], currency .. ':waiting', store.digits(-sum.grabbed))
    if sum.open ~= 0 then
        sums.add(KEYS[5], currency .. ':open', sum.open)
    end
end
return reply
