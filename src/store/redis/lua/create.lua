-- Creates envelopes of one partition, each only if there is nothing of its id.
--
-- Everything is decided first and written last. No key of a new envelope exists yet, and every
-- other key that is written is read before, so a key of a wrong type stops what needs it before
-- anything is written.
--
-- KEYS  partition, ledger, open envelopes, settled envelopes, sums of envelopes
--       for each envelope: envelope, packets, allowed, the bucket of its id among removed envelopes
-- ARGV  clock, store id and witnesses
--       how long before now an envelope may begin, in microseconds
--       number of envelopes, then for each: id, its field in that bucket, the moment at which it
--       begins, expiry, currency, amount, the fields `record` and `gate`, its entry as JSON; number
--       of words about its packets, then score and packet of each; number of words about those who
--       may grab, then bucket and digests of each bucket
-- reply {head, then for each envelope the number of its entry, or a letter: 'S' there is something
--       of this id, or the envelope does not begin now, 'G' and a key that is left of an envelope
--       that was removed, 'X' and what is wrong}
--
-- Reads  clock, writing, sums
local refusal, now, last, replid, mark, format = open_to_write()
if refusal then
    return refusal
end
redis.call('XLEN', KEYS[2])
local call, digits_now, sequence = redis.call, digits(now), last
local earliest, arg = now - tonumber(ARGV[3]), 5

-- The range of the next arguments, whose number is given before them.
local function take_words()
    local from = arg + 1
    arg = from + tonumber(ARGV[arg])
    return { from = from, to = arg - 1 }
end

-- Reads an envelope from the call. `key` is the index of its first key.
local function read_new(key)
    local id, field, begins, expiry, currency, amount, record, gate, entry =
        unpack(ARGV, arg, arg + 8)
    arg = arg + 9
    local packets = take_words()
    local allowed = take_words()
    return {
        key = KEYS[key], packets_key = KEYS[key + 1], allowed_key = KEYS[key + 2],
        removed_key = KEYS[key + 3], id = id, field = field,
        begins = tonumber(begins), expiry = tonumber(expiry), currency = currency,
        amount = tonumber(amount), record = record, gate = gate, entry = entry,
        packets = packets, allowed = allowed,
        sequence = 0, -- the number of its entry, once that is decided
    }
end

-- Why an envelope is not created (see above); nil if it is. `checked` has the currencies whose sums
-- are numbers.
local function refusal_of_new(e, is_listed, checked)
    local is_now = earliest <= e.begins and e.begins <= now and now < e.expiry
    if not is_now or is_listed or call('HEXISTS', e.removed_key, e.field) == 1 then
        return 'S'
    elseif call('EXISTS', e.key, e.packets_key, e.allowed_key) > 0 then
        if call('EXISTS', e.key) == 1 then
            return 'S'
        end
        return 'G' .. (call('EXISTS', e.packets_key) == 1 and e.packets_key or e.allowed_key)
    end
    if not checked[e.currency] then
        check_sums(KEYS[5], { e.currency .. ':envelopes', e.currency .. ':open',
            e.currency .. ':created', e.currency .. ':waiting' })
        checked[e.currency] = true
    end
    return nil
end

-- Decides on all envelopes. Returns those that are created.
local function decide_all(reply)
    local all, ids, created, checked = {}, {}, {}, {}
    for index = 1, tonumber(ARGV[4]) do
        all[index] = read_new(index * 4 + 2)
        ids[index] = all[index].id
    end
    local open = call('ZMSCORE', KEYS[3], unpack(ids))
    local settled = call('ZMSCORE', KEYS[4], unpack(ids))
    for index, e in ipairs(all) do
        local is_sound, answer = pcall(refusal_of_new, e, open[index] or settled[index], checked)
        if not is_sound then
            answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
        elseif not answer then
            sequence = sequence + 1
            e.sequence, answer = sequence, digits(sequence)
            created[#created + 1] = e
        end
        reply[index + 1] = answer
    end
    return created
end

-- Calls a command with words about an envelope, in parts: a Lua call takes only some thousand.
local function write_words(command, key, words)
    for from = words.from, words.to, 1000 do
        call(command, key, unpack(ARGV, from, math.min(from + 999, words.to)))
    end
end

-- Adds to a currency's sums.
local function add_created(currency, amount)
    add_to_sum(KEYS[5], currency .. ':created', digits(amount))
    add_to_sum(KEYS[5], currency .. ':waiting', digits(amount))
end

local reply = { digits_now }
local created = decide_all(reply)
reply[1] = reply_head(now, replid, #created > 0 and sequence or 0)
if #created == 0 then
    return reply
end
local number = last_number(KEYS[1])
for _, e in ipairs(created) do
    number = number + 1
    if not append(last, e.sequence, 'e', e.id, 't', digits_now, 'n', '1', 'j', e.entry,
        numbered(format, number, mark)) then
        return ledger_is_gone()
    end
end
local sums, open = {}, {}
for _, e in ipairs(created) do
    call('HSET', e.key, 'revision', '1', 'created', digits(e.sequence), 'record', e.record, 'gate',
        e.gate)
    write_words('ZADD', e.packets_key, e.packets)
    write_words('HSET', e.allowed_key, e.allowed)
    open[#open + 1], open[#open + 2] = digits(e.expiry), e.id
    local sum = sums[e.currency] or { envelopes = 0, amount = 0 }
    sums[e.currency] = sum
    -- Beyond 2^53 they would not be exact.
    if sum.amount + e.amount > 9007199254740991 then
        add_created(e.currency, sum.amount)
        sum.amount = 0
    end
    sum.envelopes, sum.amount = sum.envelopes + 1, sum.amount + e.amount
end
call('ZADD', KEYS[3], unpack(open))
call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits_now)
if format >= FULL_ENTRIES_FORMAT then
    call('HSET', KEYS[1], 'entries', digits(number))
end
for currency, sum in pairs(sums) do
    add_to_sum(KEYS[5], currency .. ':envelopes', sum.envelopes)
    add_to_sum(KEYS[5], currency .. ':open', sum.envelopes)
    add_created(currency, sum.amount)
end
return reply
