-- The queues of a pool: which unit is next. A queue is read ahead, and what draws have taken of it
-- is counted; it is written at the end.
--
-- Reads  clock
--        a pool: queues, chunk, up_to, wins_key
--        a queue: pool, prize, key, is_held
-- Gives  first_waiting, count_windows
local byte_of, call = string.byte, redis.call

-- Reads more of a queue's head, up to the pool's highest score: all cards, or units that are due.
local function read_ahead(pool, queue)
    local units, have = queue.units, queue.have
    local wanted = math.max(pool.chunk, have) -- twice as many each time
    local part = call('ZRANGEBYSCORE', queue.key, '-inf', pool.up_to, 'LIMIT', digits(have),
        digits(wanted))
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

-- Whether a queue's next unit comes before another's: units are in the order of their bytes. (Lua
-- would compare texts as the server's language does.)
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
-- Prizes in `denied` are held for the user at hand; nil: none is.
local function first_waiting(pool, denied)
    local first, lowest = false, nil
    for number = 1, #pool.queues do
        local queue = pool.queues[number]
        if not queue.is_held and not (denied and denied[queue.prize]) then
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
    if not denied then
        pool.first = first
    end
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

return first_waiting, count_windows
