-- Writes what a rule has decided on a campaign or an envelope, all or nothing, and only if nothing
-- that the rule read has changed since.
--
-- KEYS  partition, ledger, campaign, operations (for an envelope twice the envelope instead of the
--       last two), then the other keys that guards and writes name
-- ARGV  clock, store id and witnesses
--       mark of the fork under which the campaign was read (*: any)
--       'c' and the campaign's id, or 'e' and the envelope's
--       the revision that was read (empty if there was none)
--       the moment of reading, and how long what was read may be used, in microseconds
--       number of typed keys, then the type of each of KEYS
--       number of guards, then each of them:
--       - 'units', key, number, members: these members are in the sorted set
--       - 'field', key, field, value: the field has this value
--       - 'absent', key, field: the field does not exist
--       - 'gone', key: the key does not exist
--       - 'unlisted', key, member: the member is not in the sorted set
--       - 'count', key, counter, number: the campaign's counter is this number plus the units there
--       - 'most', key, field, number: the field's number is at most this (no field: 0)
--       - 'format', key (any), number: the data are of this format or a later one
--       number of counters of the campaign, then for each its name and what is added to it
--       number of sums, the key of all of them, then for each its name and what is added to it
--       number of entries, then each as JSON
--       the field that gets the number of the last entry, and what follows that number there (a
--       reply that is remembered for a request); or twice nothing
--       number of writes, then for each: command, key, number of further arguments, these
--       (a key is given by its index in KEYS)
-- reply {head, number of the last entry}
--       {now, 'S'}: something has changed
--       {now, 'G', key}: the key is left of something that was removed
--       {now, 'U', key}: units of this queue are missing
--       {now, 'O'}: the data are of an older format than is needed
local refusal, now, last, replid, mark, format = open_to_write()
if refusal then
    return refusal
end
local sequence = last
local read_at = tonumber(ARGV[7])
local is_of_fork = ARGV[3] == '*' or ARGV[3] == mark
if not is_of_fork or read_at > now or now - read_at > tonumber(ARGV[8]) then
    return { digits(now), 'S' }
end
local arg = 9
local function take()
    arg = arg + 1
    return ARGV[arg - 1]
end
-- Calls `work` with the next `number` arguments, in parts: a Lua call takes only some thousand.
local function each_part(number, work)
    for from = arg, arg + number - 1, 1000 do
        work(unpack(ARGV, from, math.min(from + 999, arg + number - 1)))
    end
    arg = arg + number
end
for index = 1, tonumber(take()) do
    local wanted, found = take(), redis.call('TYPE', KEYS[index]).ok
    if found ~= wanted and found ~= 'none' then
        return redis.error_reply('WRONGTYPE ' .. KEYS[index] .. ' is a ' .. found .. ' and not a '
            .. wanted)
    end
end
if (redis.call('HGET', KEYS[3], 'revision') or '') ~= ARGV[6] then
    return { digits(now), 'S' }
end
for _ = 1, tonumber(take()) do
    local kind, key = take(), KEYS[tonumber(take())]
    if kind == 'units' then
        local are_there = true
        each_part(tonumber(take()), function(...)
            for _, score in ipairs(redis.call('ZMSCORE', key, ...)) do
                are_there = are_there and score
            end
        end)
        if not are_there then
            return { digits(now), 'S' }
        end
    elseif kind == 'field' then
        if redis.call('HGET', key, take()) ~= take() then
            return { digits(now), 'S' }
        end
    elseif kind == 'most' then
        local counted = tonumber(redis.call('HGET', key, take()) or 0)
        if not counted or counted > tonumber(take()) then
            return { digits(now), 'S' }
        end
    elseif kind == 'gone' then
        if redis.call('EXISTS', key) == 1 then
            return { digits(now), 'G', key }
        end
    elseif kind == 'unlisted' then
        if redis.call('ZSCORE', key, take()) then
            return { digits(now), 'G', key }
        end
    elseif kind == 'count' then
        local counted = tonumber(redis.call('HGET', KEYS[3], take()) or 0)
        if counted ~= redis.call('ZCARD', key) + tonumber(take()) then
            return { digits(now), 'U', key }
        end
    elseif kind == 'format' then
        if format < tonumber(take()) then
            return { digits(now), 'O' }
        end
    elseif redis.call('HEXISTS', key, take()) == 1 then
        return { digits(now), 'S' }
    end
end

local counts = {}
for index = 1, tonumber(take()) do
    local name = take()
    local value = redis.call('HGET', KEYS[3], name)
    if value and not string.find(value, '^%-?%d+$') then
        return redis.error_reply('WRONGTYPE ' .. KEYS[3] .. ': ' .. name .. ' is no number')
    end
    counts[index] = { name, take() }
end

local sum_changes, sum_names, number_of_sums = {}, {}, tonumber(take())
local sums_key = KEYS[tonumber(take())]
for index = 1, number_of_sums do
    sum_names[index] = take()
    sum_changes[index] = { sum_names[index], take() }
end
if #sum_changes > 0 then
    local are_sums, flaw = pcall(check_sums, sums_key, sum_names)
    if not are_sums then
        return redis.error_reply(type(flaw) == 'table' and flaw.err or flaw)
    end
end

-- Writes may remove the campaign's hash, so the number of its last entry is set after them.
local count_key = ARGV[4] == 'c' and KEYS[3] or KEYS[1]
local last_of, entries = last_number(count_key), tonumber(take())
while entries > 0 do
    local some = math.min(entries, 1000)
    local item = { ARGV[4], ARGV[5], 't', digits(now), 'n', some }
    for _ = 1, some do
        item[#item + 1] = 'j'
        item[#item + 1] = take()
    end
    entries, sequence, last_of = entries - some, sequence + some, last_of + some
    for _, word in ipairs({ numbered(format, last_of, mark) }) do
        item[#item + 1] = word
    end
    if not append(last, sequence, unpack(item)) then
        return ledger_is_gone()
    end
    redis.call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits(now))
end
local request, answer = take(), take()
if request ~= '' then
    redis.call('HSET', KEYS[4], request, digits(sequence) .. answer)
end
for _ = 1, tonumber(take()) do
    local command, key, number = take(), KEYS[tonumber(take())], tonumber(take())
    if number == 0 then
        redis.call(command, key)
    end
    each_part(number, function(...)
        redis.call(command, key, ...)
    end)
end
for _, sum in ipairs(sum_changes) do
    add_to_sum(sums_key, sum[1], sum[2])
end
for _, count in ipairs(counts) do
    redis.call('HINCRBY', KEYS[3], count[1], count[2])
end
if sequence > last and format >= FULL_ENTRIES_FORMAT then
    redis.call('HSET', count_key, 'entries', digits(last_of))
end
return { reply_head(now, replid, sequence > last and sequence or 0), digits(sequence) }
