-- Draws for users of campaigns of one partition, and grants bonus draws, in the order given, each
-- whole or not at all. All that is said here of draws holds for grants.
--
-- Everything is decided first and written last. Every key that is written is read before, so a key
-- of a wrong type stops its campaign before anything is written. The ledger is the exception: it is
-- written first, so a wrong one stops the whole script before anything else is written.
--
-- KEYS  partition, ledger
--       for each campaign: campaign, blocked, long draws; for each pool its wins (schedules only)
--       and its queues; the hashes that contain the users of its draws; for each draw the bucket of
--       the user's older draws
-- ARGV  clock, store id and witnesses, request memory in microseconds, bound of the backlog (see
--       backlog.lua), number of campaigns
--       for each campaign: id, version, layout, days, number of these hashes, number of draws
--       then one value each for all its draws together:
--       - for each draw one byte: the index of the user's hash, from 0
--       - the earliest deadline (the moment after which a draw must not begin)
--       - for each draw eight bytes: its deadline
--       - the different kinds of requests, each {what, expire, payment digest}; of a grant what it
--         asks for is in place of the digest: {draws, lapses}
--       - for each draw one byte: the index of its kind, from 0
--       - what the ledger keeps of each draw, one after another
--       - for each draw two bytes: the length of its part of the value before
--       - nothing, or if there are personal pools: the held prizes, as those know them who planned
--         the draws, a list of the prizes of guarantees that the budget may hold, and for each draw
--         its plan (see plans.rs)
--       then for each draw: user field, request field
--       (layout, days and braces are msgpack, see codec.rs; records and draws: see record.rs)
-- reply {head}, then for each campaign {the replies to its draws; the pools that run low or are
--       behind}, or a letter: 'M' no such campaign, 'V' another version, 'Y' another day, 'X' and
--       what is wrong
--       the reply to a draw that is made: the user's record with this draw as its latest
--       any other reply: a letter, the length of what follows in two bytes, and that:
--       'R' replayed: the remembered draw     'U' request id reused
--       'P' past its deadline                 'E' expired
--       'A' no draws are taken: the lifecycle 'Q' a limit, or a grant that cannot be added: the
--                                             user's record
--       'F' a fill is needed: {pool, cards}   'B' too many entries are not settled
--       'O' the data are of a format whose readers know no grants
--       'G' it was planned from other progress, or held prizes, or prizes that the budget holds:
--         these (see own.lua)
--
-- Reads  clock, writing, backlog, campaign, batch
local refusal, now, last, replid, mark, format = open_to_write()
if refusal then
    return refusal
end
local sequence = last
local call = redis.call
local digits_now, oldest = digits(now), now - tonumber(ARGV[3])
local is_full = is_backlogged(ARGV[4], now, last)

-- Decides the draws of a campaign. Returns the reply, and what to write if a draw is made.
local function decide(c)
    local letter = open_campaign(c)
    if letter then
        return letter, nil
    end
    return draw_batch(c, sequence)
end

-- Decides all draws. Returns what to write for each campaign.
local function decide_all(reply)
    local items, key, arg = {}, 3, 6
    for number = 1, tonumber(ARGV[5]) do
        local c
        c, key, arg = read_campaign(key, arg, now, digits_now, oldest, format)
        c.is_full, c.mark = is_full, mark
        local is_sound, answer, item = pcall(decide, c)
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

-- Appends the draws of a campaign to the ledger; false if it is gone.
local function append_draws(item)
    local c = item.campaign
    local version, done = digits(c.version), digits(item.done)
    return append(last, item.last, 'c', c.id, 't', digits_now, 'v', version, 'n', done, 'd',
        item.parts, 'a', item.answers, numbered(format, c.entries + item.done, mark))
end

-- Writes the rest of a campaign.
local function write(item)
    local c = item.campaign
    for number, words in ipairs(item.written) do
        if #words > 0 then
            call('HSET', KEYS[c.first_key + number - 1], unpack(words))
        end
    end
    for _, words in ipairs(item.older) do
        call('HSET', unpack(words))
    end
    call('HSET', c.key, unpack(item.sums))
    for _, queue in ipairs(item.taken) do
        call('ZREMRANGEBYRANK', queue.key, '0', digits(queue.taken - 1))
    end
    for wins_key, sums in pairs(item.wins) do
        call('HSET', wins_key, unpack(sums))
    end
end

local reply = { digits_now }
local items = decide_all(reply)
for _, item in ipairs(items) do
    if not append_draws(item) then
        return ledger_is_gone()
    end
end
reply[1] = reply_head(now, replid, #items > 0 and sequence or 0)
if #items > 0 then
    call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits_now)
end
for _, item in ipairs(items) do
    write(item)
end
return reply
