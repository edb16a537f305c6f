-- Draws for users of campaigns of one partition, in the order given, each whole or not at all. Everything is decided first and
-- written last; every key that is written is read before, so that one of a wrong type stops its campaign with nothing half done.
-- (But for the ledger: it is written first, so it stops the whole script with nothing done.)
--
-- KEYS  partition, ledger
--       for each campaign: campaign, blocked, long draws, for each pool: its wins (schedules only), its queues
--       those hashes of users that its draws are of; for each draw: the bucket of the user's older draws
-- ARGV  clock, store id and witnesses, request memory in microseconds, number of campaigns
--       for each campaign: id, version, layout, days, number of those hashes, number of draws, and of all its draws together:
--       the hash of each's user in a byte, from 0; the earliest moment after which one must not begin; that of each, in eight bytes
--       what they ask for: {what, expire, payment digest} of each kind; the kind of each in a byte, from 0
--       what the ledger keeps of each, one after another; the lengths of these, in two bytes
--       then for each draw: user field, request field
--       (layout, days and braces: msgpack, see codec.rs; records and draws: see record.rs)
-- reply {head}, then for each campaign: {the replies to its draws; the pools that run low or are behind}; or why there is none:
--       'M' no such campaign, 'V' another version, 'Y' another day, 'X' and what is wrong
--       a draw: the user's record with this draw as its latest; or a letter, the length of what follows in two bytes, and that:
--       'R' and the remembered draw: replayed; 'U' request id reused, 'P' past its deadline, 'E' expired,
--       'A' and the lifecycle: the campaign takes no draws, 'Q' and the user's record: a limit, 'F' and {pool, cards}: a need
--
-- Reads  store, campaign, batch
local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
local call, now = redis.call, store.digits(partition.now)
local sequence, oldest = partition.sequence, partition.now - tonumber(ARGV[3])

-- Decides all draws; what will be written once all is decided.
local function decide(reply)
    local items, key, arg = {}, 3, 5
    for number = 1, tonumber(ARGV[4]) do
        local c, item
        c, key, arg = campaign.read(key, arg, partition.now, oldest)
        local is_sound, answer = pcall(function()
            local letter = campaign.open(c)
            if letter then
                return letter
            end
            local replies
            replies, item = batch.run(c, sequence)
            return replies
        end)
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

local function write(item)
    local c = item.campaign
    for number, fields in ipairs(item.written) do
        if #fields > 0 then
            call('HSET', KEYS[c.first_key + number - 1], unpack(fields))
        end
    end
    for _, moved in ipairs(item.older) do
        call('HSET', unpack(moved))
    end
    call('HSET', c.key, unpack(item.sums))
    for _, queue in ipairs(item.taken) do
        call('ZREMRANGEBYRANK', queue.key, 0, queue.taken - 1)
    end
    for wins_key, sums in pairs(item.won_sums) do
        call('HSET', wins_key, unpack(sums))
    end
end

local reply = { now }
local items = decide(reply)
for _, item in ipairs(items) do
    local c = item.campaign
    if not store.append(partition, item.last, 'c', c.id, 't', now, 'v', c.version, 'n', item.done, 'd', item.parts, 'a', item.answers) then
        return store.ledger_is_gone()
    end
end
reply[1] = store.head(partition, #items > 0 and sequence or 0)
if #items > 0 then
    call('HSET', KEYS[1], 'sequence', store.digits(sequence), 'last', now)
end
for _, item in ipairs(items) do
    write(item)
end
return reply
