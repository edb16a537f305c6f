-- Prizes that a user may not have now. A schedule holds their units. In a deck the card is drawn as
-- it would be for anybody, and is forfeited: the user gets what a blank gives, and the unit is back
-- in stock. (`rules/draw.rs` decides the same for other stores.)
--
-- Reads  a campaign: key, format, counts_as_win, caps, own
--        a pool: gate, prizes
--        a queue: prize, forfeited
-- Sets   a campaign: denied, forfeited, forfeited_before; nil until they are needed
-- Gives  denied_prizes, count_capped, is_denied, cards_of, is_dealt_on, forfeit, count_forfeited

-- The prizes that a user may not have who has reached the limit of wins: those that count as wins.
-- If no card can be forfeited, it is every prize, as in the versions that read such data.
local function prizes_that_count(c)
    if not c.denied then
        local is_older = c.format < FULL_ENTRIES_FORMAT
        c.denied = {}
        for number = 1, #c.counts_as_win do
            c.denied[number - 1] = c.counts_as_win[number] == 1 or is_older
        end
    end
    return c.denied
end

-- The prizes that a user with so many wins, of as many as `wins_limit`, may not have now; nil: any.
-- `more` are the fields of the user's record (see record.lua), nil if there are none.
local function denied_prizes(c, won, wins_limit, more)
    local prizes = more and more.prizes
    local denied = won >= wins_limit and prizes_that_count(c) or nil
    if not (c.caps and prizes) then
        return denied
    end
    local is_own = false
    for index = 1, #prizes, 3 do
        local prize = prizes[index]
        local cap = c.caps[prize]
        if cap and (prizes[index + 1] >= cap.day or prizes[index + 2] >= cap.all) then
            if not is_own then
                local common = denied or {}
                denied, is_own = {}, true
                for number = 0, #c.counts_as_win - 1 do
                    denied[number] = common[number]
                end
            end
            denied[prize] = true
        end
    end
    return denied
end

-- Counts a win of a prize if it has a cap; the fields of the record, or those that it begins.
local function count_capped(c, more, prize)
    if not c.caps[prize] then
        return more
    end
    more = more or {}
    local prizes = more.prizes or {}
    more.prizes = prizes
    for index = 1, #prizes, 3 do
        if prizes[index] == prize then
            prizes[index + 1], prizes[index + 2] = prizes[index + 1] + 1, prizes[index + 2] + 1
            return more
        end
    end
    local last = #prizes
    prizes[last + 1], prizes[last + 2], prizes[last + 3] = prize, 1, 1
    return more
end

-- Whether every prize of a pool is among these.
local function is_denied(pool, prizes)
    for index = 1, #pool.prizes do
        local prize = pool.prizes[index]
        if prize >= 0 and not prizes[prize] then
            return false
        end
    end
    return true
end

-- Forfeited cards of a prize, with those of this batch.
local function cards_of(c, prize)
    c.forfeited_before = c.forfeited_before or {}
    local before = c.forfeited_before[prize]
    if not before then
        before = tonumber(redis.call('HGET', c.key, string.format('forfeited:%d', prize)) or 0)
        c.forfeited_before[prize] = before
    end
    return before + (c.forfeited and c.forfeited[prize] or 0)
end

-- Whether more cards of a deck are dealt. If that depends on stock that changes within a version,
-- the gate is a list of prizes and numbers in turn: it goes on if as many cards of each of these
-- prizes are forfeited as that number and the units that personal pools have taken off stock.
local function is_dealt_on(c, pool)
    local gate = pool.gate
    if type(gate) ~= 'table' then
        return gate == 1
    end
    local taken = c.own and c.own.taken or {}
    for index = 1, #gate, 2 do
        local prize = gate[index]
        if cards_of(c, prize) < gate[index + 1] + (taken[prize] or 0) then
            return false
        end
    end
    return true
end

-- Counts cards that a draw has forfeited, each given as its queue.
local function forfeit(c, cards)
    c.forfeited = c.forfeited or {}
    for index = 1, #cards do
        local queue = cards[index]
        queue.forfeited = queue.forfeited + 1
        c.forfeited[queue.prize] = (c.forfeited[queue.prize] or 0) + 1
    end
end

-- Adds the forfeited cards of this batch to counters of the campaign.
local function count_forfeited(c, counts)
    for prize, cards in pairs(c.forfeited or {}) do
        counts[string.format('forfeited:%d', prize)] = cards
    end
end

return denied_prizes, count_capped, is_denied, cards_of, is_dealt_on, forfeit, count_forfeited
