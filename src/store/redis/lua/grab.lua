-- Grabs for users of envelopes of one partition, in the order given.
--
-- Everything is decided first and written last. Every key that is written is read before, so a key
-- of a wrong type stops its envelope before anything is written.
--
-- KEYS  partition, ledger, open envelopes, settled envelopes, sums of envelopes
--       for each envelope: envelope, packets, allowed, then the buckets of the users who grab
-- ARGV  clock, store id and witnesses, bound of the backlog (see backlog.lua), number of envelopes
--       for each envelope: id, mark, number of these buckets
--       then one value each for all its grabs together:
--       - the users, msgpack one after another
--       - for each grab one byte: the index of the user's bucket, from 0
--       - the earliest deadline (the moment after which a packet must not be taken)
--       - for each grab eight bytes: its deadline
--       - if not everyone may grab, for each grab the bucket of the user among those who may, in
--         two bytes, and the user's digest in twelve; else empty
-- reply {head}, then for each envelope '1' if its refund is due, else '0', followed by the replies
--       to its grabs, one after another; or a letter: 'M' no such envelope, 'V' the mark is that of
--       another one, 'X' and what is wrong
--       the reply to a grab: 'G' grabbed, and the packet; 'W' the same, and few packets wait now;
--       'A' grabbed before, the length of the packet in two bytes, and the packet;
--       'P' past its deadline, 'N' not allowed, 'S' not started, 'T' expired, 'E' empty,
--       'F' a fill is needed, 'Y' not yet released, 'B' too many entries are not settled
--       a packet, as it is stored in the bucket: number, amount, moment in seven bytes, sequence
--       number; the last two count from the envelope's creation (codec.rs)
--
-- Reads  clock, writing, backlog, grabbing, envelope, sums
local refusal, now, last, replid, mark, format = open_to_write()
if refusal then
    return refusal
end
redis.call('XLEN', KEYS[2])
local call, digits_now, sequence = redis.call, digits(now), last
local is_full = is_backlogged(ARGV[3], now, last)

-- Decides all grabs. Returns what to write for each envelope.
local function decide_all(reply)
    local items, checked, key, arg = {}, {}, 6, 5
    for number = 1, tonumber(ARGV[4]) do
        local e
        e, key, arg = read_envelope(key, arg)
        e.is_full = is_full
        local is_sound, answer, item = pcall(grab_batch, e, sequence, now, digits_now, checked)
        if not is_sound then
            answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
        elseif item then
            sequence = item.last
            items[#items + 1] = item
        end
        reply[number + 1] = answer
    end
    return items
end

-- Adds to a currency's sums, and subtracts what waits no longer.
local function add_grabbed(currency, amount)
    add_to_sum(KEYS[5], currency .. ':grabbed', digits(amount))
    add_to_sum(KEYS[5], currency .. ':waiting', digits(-amount))
end

-- Writes the grabs of an envelope. Their amount is counted in `sum`.
local function write(item, sum)
    local e = item.envelope
    for bucket, words in pairs(item.writes) do
        call('HSET', KEYS[e.first_bucket + bucket - 1], unpack(words))
    end
    call('HSET', e.key, 'grabbed', item.grabbed)
    call('ZREMRANGEBYRANK', e.packets_key, '0', digits(item.count - 1))
    if item.is_last then
        call('ZREM', KEYS[3], e.id)
        call('ZADD', KEYS[4], digits_now, e.id)
        sum.open = sum.open - 1
    end
    -- Beyond 2^53 they would not be exact.
    if sum.grabbed + item.amount > 9007199254740991 then
        add_grabbed(item.currency, sum.grabbed)
        sum.grabbed = 0
    end
    sum.grabbed = sum.grabbed + item.amount
end

local reply = { digits_now }
local items = decide_all(reply)
reply[1] = reply_head(now, replid, #items > 0 and sequence or 0)
if #items == 0 then
    return reply
end
local number = last_number(KEYS[1])
for _, item in ipairs(items) do
    local id, count = item.envelope.id, digits(item.count)
    number = number + item.count
    if not append(last, item.last, 'e', id, 't', digits_now, 'n', count, 'g', item.users, 'p',
        item.packets, numbered(format, number, mark)) then
        return ledger_is_gone()
    end
end
local sums = {}
for _, item in ipairs(items) do
    local sum = sums[item.currency] or { open = 0, grabbed = 0 }
    sums[item.currency] = sum
    write(item, sum)
end
call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits_now)
if format >= FULL_ENTRIES_FORMAT then
    call('HSET', KEYS[1], 'entries', digits(number))
end
for currency, sum in pairs(sums) do
    add_grabbed(currency, sum.grabbed)
    if sum.open ~= 0 then
        add_to_sum(KEYS[5], currency .. ':open', sum.open)
    end
end
return reply
