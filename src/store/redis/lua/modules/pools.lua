-- Pools: which unit a draw takes. The queues of a pool are read ahead, and what draws have taken of them is counted; it is written at
-- the end.
--
-- Reads  store
--        a campaign `c`: key, pools, counts_as_win, limits, without
--        a pool: queues, unlock, is_deck, gate, is_behind, chunk, up_to, wins_key
--        a queue: pool, number (of its pool), prize (-1: blanks), key, is_held, won (how its results begin)
-- Gives  draw_units, give_back, count_windows, find_empty, refuse_gone
local byte_of, call, digits = string.byte, redis.call, store.digits

-- Reads more of a queue's head, up to the pool's highest score: all cards, or units that are due.
local function read_ahead(pool, queue)
    local units, have = queue.units, queue.have
    local wanted = math.max(pool.chunk, have) -- twice as many each time
    local part = call('ZRANGEBYSCORE', queue.key, '-inf', pool.up_to, 'LIMIT', have, wanted)
    if have == 0 then
        queue.units = part
    else
        for index = 1, #part do
            units[have + index] = part[index]
        end
    end
    queue.have = have + #part
    queue.is_whole = #part < wanted
end

-- Whether a queue's next unit comes before another's: units are in the order of their bytes. (Lua would compare texts as the server's
-- language does.)
local function is_before(unit, other)
    local score, its_score = struct.unpack('>I7', unit), struct.unpack('>I7', other)
    if score ~= its_score then
        return score < its_score
    end
    for index = 8, math.min(#unit, #other) do
        local one, its = byte_of(unit, index), byte_of(other, index)
        if one ~= its then
            return one < its
        end
    end
    return false
end

-- The queue whose next unit comes first, without those of held prizes; false if there is none.
local function first_waiting(pool)
    local first, lowest = false, nil
    for number = 1, #pool.queues do
        local queue = pool.queues[number]
        if not queue.is_held then
            local at = queue.taken + 1
            if at > queue.have and not queue.is_whole then
                read_ahead(pool, queue)
            end
            local unit = queue.units[at]
            if unit and (not first or is_before(unit, lowest)) then
                first, lowest = queue, unit
            end
        end
    end
    pool.first = first
    return first
end

-- Counts the units taken from a schedule's queue by window and prize, for each key of wins.
local function count_windows(queue, won)
    local wins_key = queue.pool.wins_key
    local counts, by_window = won[wins_key] or {}, {}
    for at = 1, queue.taken do
        local window = string.sub(queue.units[at], 8, 12)
        by_window[window] = (by_window[window] or 0) + 1
    end
    for window, units in pairs(by_window) do
        counts[digits(struct.unpack('>I5', window)) .. ':' .. queue.prize] = units
    end
    won[wins_key] = counts
end

-- One draw of a user who has drawn and won so often before. The result is packed (see record.rs), or false if nothing is won; besides
-- the wins of the user after it. If a pool must be filled first, the result is nil and what is needed.
local function draw_one(c, picks, drawn, won)
    local pools = c.pools
    for number = 1, #pools do
        local pool = pools[number]
        if drawn >= pool.unlock then
            local queue = pool.first
            if queue == nil then
                queue = first_waiting(pool)
            end
            local at = queue and queue.taken + 1
            local unit = queue and queue.units[at]
            -- What is released before the gate is all there, so the first of it may be drawn while a fill goes on.
            if unit and not (pool.is_behind and struct.unpack('>I7', unit) >= pool.gate) then
                queue.taken, pool.first = at, nil
                picks.count = picks.count + 1
                picks[picks.count] = queue
                if queue.prize < 0 then
                    return false, won
                end
                return queue.won .. unit, won + c.counts_as_win[queue.prize + 1]
            elseif pool.is_behind then
                return nil, cmsgpack.pack(number - 1, 0)
            elseif pool.is_deck and pool.gate == 1 then
                local cards = 1
                for pick = 1, picks.count do
                    if picks[pick].pool == pool then
                        cards = cards + 1
                    end
                end
                return nil, cmsgpack.pack(number - 1, cards)
            end
        end
    end
    return false, won
end

-- All results of a draw, packed, the wins of the user after it, and how many units it takes; or nil and the need. `picks` are the
-- queues that it takes from.
local function draw_units(c, picks, user, count, is_barred)
    local results, units, won = nil, 0, user.won
    local without, wins_limit = c.without, c.limits.wins
    picks.count = 0
    for drawn = user.drawn, user.drawn + count - 1 do
        local result = false
        if not is_barred and won < wins_limit then
            result, won = draw_one(c, picks, drawn, won)
            if result == nil then
                return nil, won
            end
        end
        if result then
            units = units + 1
        else
            result = without
        end
        results = results and results .. result or result
    end
    return results, won, units
end

-- Gives back what a draw has taken that is not made after all.
local function give_back(picks)
    for pick = 1, picks.count do
        local queue = picks[pick]
        queue.taken = queue.taken - 1
        queue.pool.first = nil
    end
end

-- The queues that were looked at and had nothing, and the names of their counters.
local function find_empty(pools)
    local queues, names = {}, {}
    for number = 1, #pools do
        for _, queue in ipairs(pools[number].queues) do
            if queue.is_whole and queue.have == 0 then
                queues[#queues + 1] = queue
                names[#names + 1] = 'waiting:' .. queue.number .. ':' .. queue.prize
            end
        end
    end
    return queues, names
end

-- Stops a campaign of which a queue is gone: its counter says that units wait in it, and no fill is open that has still to bring them.
local function refuse_gone(campaign_key, queues, counts)
    local keys, waiting = {}, {}
    for index = 1, #queues do
        if tonumber(counts[index] or 0) > 0 then
            keys[#keys + 1], waiting[#waiting + 1] = queues[index].key, queues[index]
        end
    end
    if #keys == 0 or call('EXISTS', unpack(keys)) == #keys then
        return
    end
    for _, queue in ipairs(waiting) do
        local is_filled = queue.pool.is_deck or call('HGET', campaign_key, 'open:' .. queue.number) == ''
        if is_filled and call('EXISTS', queue.key) == 0 then
            error(queue.key .. ' is gone, and units wait in it', 0)
        end
    end
end

return {
    draw_units = draw_units, give_back = give_back, count_windows = count_windows, find_empty = find_empty, refuse_gone = refuse_gone,
}
