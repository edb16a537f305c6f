-- The pools of a campaign: which units a draw takes. What is taken is only counted here; it is
-- written at the end.
--
-- Reads  queues, budget, denials, own, guarantees
--        a campaign: key, format, pools, counts_as_win, caps, budget, next_code, given,
--        nothing_due, own, guarantees
--        a pool: number, unlock, bounds (nil, or wins, draws_today), is_deck, is_own, gate,
--        is_behind, queues
--        a queue: pool, prize, code, coded
-- Sets   a campaign: checked, the number of empty queues that are known not to be gone; next_code;
--        what was won of the budget
-- Gives  pack_not_won, draw_units, find_empty, refuse_gone
local picks, picked = {}, 0 -- the queues that the draw at hand has taken from

-- The result of a draw that wins no unit because of this cause, packed; `given` is 1 for the
-- consolation prize, else 0. (See record.rs.)
local function pack_not_won(format, cause, given)
    return cmsgpack.pack(format < FULL_ENTRIES_FORMAT and given or -(cause * 2 + given))
end

-- What must be filled before a pool without a unit may be passed over: pool and cards, packed; nil
-- if nothing.
local function need_of(c, pool)
    if pool.is_behind then
        return cmsgpack.pack(pool.number, 0)
    elseif not (pool.is_deck and is_dealt_on(c, pool)) then
        return nil
    end
    local cards = 1
    for index = 1, picked do
        if picks[index].pool == pool then
            cards = cards + 1
        end
    end
    return cmsgpack.pack(pool.number, cards)
end

-- Whether a user with so many wins and draws of the day is outside of what a pool is open for.
local function is_outside(bounds, won, today)
    return won >= bounds.wins or today < bounds.draws_today
end

-- The result of one draw of a user with so many draws and wins, packed (see record.rs); false if it
-- wins nothing; nil and what is replied if nothing can be decided: the need of a pool that must be
-- filled first, or the letter and the text of another reply. Besides, the wins after it, and the
-- queue of a forfeited card, the result of a blank if results name cards, and the prize if a
-- personal pool gives it. The user may not have the prizes in `denied`; nil: any; the budget holds
-- those in `over`; nil: none. The pools in `closed`, by number, are not for the user; nil: all are.
local function take(c, drawn, today, won, denied, closed, over)
    local pools = c.pools
    for number = 1, #pools do
        local pool = pools[number]
        if drawn >= pool.unlock and not (closed and closed[number])
            and not (pool.bounds and is_outside(pool.bounds, won, today))
            and not (denied and is_denied(pool, denied))
        then
            local queue = pool.first
            if denied and not pool.is_deck then
                queue = first_waiting(pool, denied)
            elseif queue == nil then
                queue = first_waiting(pool)
            end
            local at = queue and queue.taken + 1
            local unit = queue and queue.units[at]
            -- What is released before the gate is all there, so the first of it may be drawn while
            -- a fill goes on.
            if unit and not (pool.is_behind and struct.unpack('>I7', unit) >= pool.gate) then
                queue.taken, pool.first = at, nil
                picked = picked + 1
                picks[picked] = queue
                if queue.prize < 0 then
                    local has_cause = c.format >= FULL_ENTRIES_FORMAT
                    return false, won, nil, has_cause and queue.code .. string.sub(unit, 8)
                elseif denied and denied[queue.prize] then
                    return cmsgpack.pack(FORFEITED, c.given) .. queue.code .. unit, won, queue
                end
                return (queue.coded or queue.code) .. unit, won + c.counts_as_win[queue.prize + 1]
            end
            if pool.is_own then
                local is_known, result, prize = take_own(c, pool, denied, over)
                if prize then
                    return result, won + c.counts_as_win[prize + 1], nil, nil, prize
                elseif result then
                    return false, won, nil, result
                elseif not is_known then
                    return nil, wrong_guess(c, pool, over), 'G'
                end
            else
                local need = need_of(c, pool)
                if need then
                    return nil, need
                end
            end
        end
    end
    return false, won
end

-- Queues that were looked at and had nothing, and the names of their counters.
local function find_empty(pools)
    local found, names = {}, {}
    for number = 1, #pools do
        local its_queues = pools[number].queues
        for index = 1, #its_queues do
            local queue = its_queues[index]
            if queue.is_whole and queue.have == 0 then
                found[#found + 1] = queue
                names[#names + 1] = string.format('waiting:%d:%d', number - 1, queue.prize)
            end
        end
    end
    return found, names
end

-- Stops the campaign if one of these queues is gone: its counter says that units wait in it, and no
-- fill is open that has still to bring them.
local function refuse_gone(c, empty, counters)
    local keys, waiting = {}, {}
    for index = 1, #empty do
        if tonumber(counters[index] or 0) > 0 then
            keys[#keys + 1], waiting[#waiting + 1] = empty[index].key, empty[index]
        end
    end
    if #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys then
        return
    end
    for index = 1, #waiting do
        local queue = waiting[index]
        local is_filled = queue.pool.is_deck
            or redis.call('HGET', c.key, 'open:' .. queue.pool.number) == ''
        if is_filled and redis.call('EXISTS', queue.key) == 0 then
            error(queue.key .. ' is gone, and units wait in it', 0)
        end
    end
end

-- Gives back what the draw at hand has taken. Many draws of a batch may find the same queues empty;
-- these are checked once.
local function give_back(c)
    for index = 1, picked do
        local queue = picks[index]
        queue.taken, queue.pool.first = queue.taken - 1, nil
    end
    local empty, names = find_empty(c.pools)
    if #names > (c.checked or 0) then
        refuse_gone(c, empty, redis.call('HMGET', c.key, unpack(names)))
        c.checked = #names
    end
end

-- The index of the code that a win of this prize gets, packed. `given` counts the codes that
-- earlier wins of the draw at hand got, and now this one.
local function give_code(c, prize, given)
    local earlier = given[prize] or 0
    given[prize] = earlier + 1
    return cmsgpack.pack(c.next_code[prize] + earlier)
end

-- Draws once or more for a user with so many draws, draws of the day (0 if no pool needs them) and
-- wins, and with these fields of the record (see record.lua). The results, packed; the wins after
-- it; how many units it won; the fields after it. Or nil, what is replied, and the letter of that
-- reply if it is not the need of a pool that must be filled first.
local function draw_units(c, kind, field, drawn, today, won, more)
    local results, units, nothing_due, cards = nil, 0, c.nothing_due, nil
    local caps, wins_limit, closed = c.caps, kind.limits.wins_limit, kind.closed
    local given, budget, guarantees = c.coded and {}, c.budget, c.guarantees
    local today_spent, all_spent, over, is_spent
    if kind.is_barred or (c.blocked > 0 and redis.call('SISMEMBER', c.blocked_key, field) == 1) then
        local cause = kind.is_barred and CONSOLATION_ONLY or BLOCKED
        return string.rep(pack_not_won(c.format, cause, c.given), kind.count), won, 0, more
    end
    picked = 0
    if budget then
        today_spent, all_spent, over = budget.today, budget.all, budget.over
    end
    if guarantees then
        begin_guarantees(c)
    end
    for number = drawn, drawn + kind.count - 1 do
        local result, card, blank, own_prize, capped, denied, is_won
        if caps or won >= wins_limit then
            capped = denied_prizes(c, won, wins_limit, more)
        end
        denied = over and with_over(c, capped, over) or capped
        if guarantees then
            result, own_prize = take_due(c, denied)
        end
        if result then
            won = won + c.counts_as_win[own_prize + 1]
        else
            result, won, card, blank, own_prize =
                take(c, number, today + number - drawn, won, denied, closed, over)
        end
        if result == nil then
            give_back(c)
            return nil, won, card
        elseif card then
            cards = cards or {}
            cards[#cards + 1] = card
        elseif result then
            is_won, units = true, units + 1
            if given and not own_prize and picks[picked].coded then
                result = result .. give_code(c, picks[picked].prize, given)
            end
            if caps then
                more = count_capped(c, more, own_prize or picks[picked].prize)
            end
            if budget then
                local value = budget.values[own_prize or picks[picked].prize]
                today_spent, all_spent, is_spent = today_spent + value, all_spent + value, true
                over = prizes_over(budget, today_spent, all_spent)
            end
        elseif blank then
            result = blank
        elseif not denied then
            result = nothing_due
        else
            local cause = capped and (won < wins_limit and PRIZE_CAP or WINS_LIMIT) or BUDGET
            result = pack_not_won(c.format, cause, c.given)
        end
        if guarantees then
            count_for_guarantees(c, is_won and (own_prize or picks[picked].prize) or nil)
        end
        results = results and results .. result or result
    end
    if cards then
        forfeit(c, cards)
    end
    if is_spent then
        budget.today, budget.all, budget.over = today_spent, all_spent, over
        budget.is_spent = true
    end
    for prize, codes in pairs(given or {}) do
        c.next_code[prize] = c.next_code[prize] + codes
    end
    if c.own then
        more = keep_own(c, more)
    end
    if guarantees then
        more = keep_guarantees(c, more)
    end
    return results, won, units, more
end

return pack_not_won, draw_units, find_empty, refuse_gone
