-- What the draws of a campaign change besides users' records: its counters, units won by window,
-- and the queues. Everything is read and added up here; draw.lua writes it.
--
-- Reads  clock, queues, budget, denials, own, pools
--        a campaign: key, format, pools, entries, is_touched, given, budget, own
-- Gives  add_up
-- Fields of counters and their sums, as HSET takes them. All of them must be numbers. Besides, the
-- values of `further` fields, which are only read.
local function add(key, counts, further)
    local names, sums = {}, {}
    for name, count in pairs(counts) do
        if count ~= 0 then
            names[#names + 1] = name
        end
    end
    local counted = #names
    for index = 1, #further do
        names[counted + index] = further[index]
    end
    if #names == 0 then
        return sums, {} -- grants alone count nothing
    end
    local values = redis.call('HMGET', key, unpack(names))
    for index = 1, counted do
        local name, value = names[index], values[index]
        if value and not string.find(value, '^%-?%d+$') then
            error(key .. ': ' .. name .. ' is no number', 0)
        end
        sums[index * 2 - 1], sums[index * 2] = name, digits((value or 0) + counts[name])
    end
    return sums, { unpack(values, counted + 1, counted + #further) }
end

-- Counts what was taken from a queue.
local function count_queue(queue, is_deck, counts, wins, taken)
    taken[#taken + 1] = queue
    counts[string.format('waiting:%d:%d', queue.pool.number, queue.prize)] = -queue.taken
    if queue.prize < 0 then
        return
    end
    local name = string.format('won:%d', queue.prize)
    counts[name] = (counts[name] or 0) + queue.taken - queue.forfeited
    if not is_deck then
        count_windows(queue, wins)
    end
end

-- Counts what was taken from a pool. True if it must be filled soon.
local function count_pool(c, pool, counts, wins, taken)
    local its_queues, is_deck, waiting, gone = pool.queues, pool.is_deck, 0, 0
    for index = 1, #its_queues do
        local queue = its_queues[index]
        if queue.taken > 0 then
            count_queue(queue, is_deck, counts, wins, taken)
        end
        if is_deck and not queue.is_held then
            gone = gone + queue.taken
            waiting = waiting + redis.call('ZCARD', queue.key)
        end
    end
    if is_deck then
        return waiting >= LOW_CARDS and waiting - gone < LOW_CARDS and is_dealt_on(c, pool)
    elseif not wins[pool.wins_key] then
        redis.call('HLEN', pool.wins_key)
        return false
    end
    return pool.is_behind -- it gave what is released before its gate
end

-- Adds up what `draws` have changed: `users` are new, `units` were won, `without` results are no
-- unit. The counters; those of each key of wins; the queues that were taken from; the pools that
-- must be filled soon, packed.
local function add_up(c, draws, users, units, without)
    local counts = {
        users = users, wins = units, [c.given == 1 and 'consolations' or 'nothings'] = without,
        revision = c.is_touched and 0 or 1, -- the first draw changes what rules read
    }
    local wins, taken, low = {}, {}, ''
    for number = 1, #c.pools do
        if count_pool(c, c.pools[number], counts, wins, taken) then
            low = low .. cmsgpack.pack(number - 1)
        end
    end
    count_forfeited(c, counts)
    if c.own then
        count_own(c, counts)
    end
    local empty, names = find_empty(c.pools)
    local sums, waiting = add(c.key, counts, names)
    refuse_gone(c, empty, waiting)
    if c.format >= FULL_ENTRIES_FORMAT then
        sums[#sums + 1], sums[#sums + 2] = 'entries', digits(c.entries + draws)
    end
    if not c.is_touched then
        sums[#sums + 1], sums[#sums + 2] = 'touched', '1'
    end
    if c.budget then
        count_spent(c.budget, sums)
    end
    for wins_key, windows in pairs(wins) do
        wins[wins_key] = add(wins_key, windows, {})
    end
    return sums, wins, taken, low
end

return add_up
