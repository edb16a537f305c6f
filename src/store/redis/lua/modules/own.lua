-- Personal pools. A service has planned what each draw gives to the user there, from the user's
-- progress and the held prizes that it knows; there is no chance here. What is planned is taken if
-- both are what is stored. (`rules/own.rs` decides the same for other stores.)
--
-- Reads  denials
--        a campaign: key, plans, mark, pools, guarantees (nil: none)
--        a pool: number, is_own, fallback
-- Sets   a campaign with such pools or guarantees: own, a table of
--          held    the held prizes as text; is_known: the plans were made from these
--          is_held the same as a set
--          watched prizes of guarantees that the budget may hold; nil: none
--          width   values of a step
--          over    of these, the prizes that the budget holds, as text; over_of: made from this set
--          taken   by prize the units that draws have taken off stock, with this batch
--          now     the same of this batch alone
--          most    by prize how many they may take, forfeited cards aside; unlimited ones have none
--          given   by pool (GUARANTEES: the guarantees) the units that it has given, with this
--                  batch; new: of this batch alone
--          mark    the mark of the fork, as units have it
--          heads   how results begin, by pool (and GUARANTEED) and prize
--        and of the draw at hand
--          plan, progress, before (by pool), reached (steps by pool and how many are taken), units
--          (by pool) and prizes that it takes
-- Gives  read_own, begin_own, take_own, keep_own, count_own, wrong_guess, can_be_given,
--        give_off_stock, set_progress
--        `read_own` is called before the others, which are made only then
local NO_SCORE = string.rep('\0', 12) -- a unit's score and window: there is none

-- The plans of a campaign's draws and what draws have taken off stock. `held` are the held prizes,
-- `gates` those of the pools, and then of the guarantees.
local function read_own(c, held, gates)
    local own = {
        held = table.concat(held, ','), is_known = false, is_held = {}, taken = {}, now = {},
        most = {}, given = {}, new = {},
        mark = c.mark == '0' and '' or '\241' .. string.sub(struct.pack('>I4', c.mark), 2),
        plans = { cmsgpack.unpack(c.plans) }, heads = {},
        watched = nil, width = 4, over = '', over_of = nil,
        plan = nil, progress = nil, before = nil, reached = nil, units = nil, prizes = nil,
    }
    local names, pools, prizes = {}, {}, {}
    local function add(number, gate)
        names[#names + 1], pools[#pools + 1] = 'given:' .. number, number
        for index = 1, #gate, 2 do
            if not own.most[gate[index]] then
                prizes[#prizes + 1] = gate[index]
            end
            own.most[gate[index]] = gate[index + 1]
        end
    end
    for index = 1, #held do
        own.is_held[held[index]] = true
    end
    for number = 1, #c.pools do
        if c.pools[number].is_own then
            add(c.pools[number].number, gates[number])
        end
    end
    if c.guarantees then
        add(GUARANTEES, gates[#c.pools + 1])
    end
    for index = 1, #prizes do
        names[#names + 1] = 'taken:' .. prizes[index]
    end
    local values = redis.call('HMGET', c.key, unpack(names))
    for index = 1, #pools do
        own.given[pools[index]] = tonumber(values[index] or 0)
    end
    for index = 1, #prizes do
        own.taken[prizes[index]] = tonumber(values[#pools + index] or 0)
    end
    own.is_known = own.plans[1] == own.held
    if own.plans[2] and #own.plans[2] > 0 then
        own.watched, own.width = own.plans[2], 5
    end
    c.own = own
end

-- Begins draw `number` of the batch, for a user with these fields of the record.
local function begin_own(c, number, more)
    local own = c.own
    local plan, progress = own.plans[number + 2], more and more.progress or {}
    own.plan = own.is_known and plan and plan ~= '' and { cmsgpack.unpack(plan) }
    own.progress, own.reached, own.before, own.units, own.prizes = progress, {}, {}, {}, {}
    for index = 1, #progress, 2 do
        own.before[progress[index]] = progress[index + 1]
    end
end

-- Which of the watched prizes the budget holds, as text; `over` are all prizes that it holds, as a
-- set; nil: none.
local function watched_over(own, over)
    if over == nil then
        return ''
    elseif over ~= own.over_of then
        local held = {}
        for index = 1, #own.watched do
            local prize = own.watched[index]
            held[#held + 1] = over[prize] and prize or nil
        end
        own.over, own.over_of = table.concat(held, ','), over
    end
    return own.over
end

-- What is replied to a draw that was planned from something else than what is stored, or than what
-- the budget holds when it reaches a pool: the held prizes as text; if prizes are watched, the
-- pool, the index of the step there, and those that the budget holds in it; the progress in all
-- personal pools if there is any.
local function wrong_guess(c, pool, over)
    local own = c.own
    local reply = cmsgpack.pack(own.held)
    if own.watched then
        local reached = own.reached[pool.number]
        local step = reached and reached.at / own.width or 0
        reply = reply .. cmsgpack.pack(pool.number, step, watched_over(own, over))
    end
    return #own.progress > 0 and reply .. cmsgpack.pack(own.progress) or reply
end

-- The steps of the draw at hand in a pool, each of four values: the prize (-1: none), the result if
-- there is none, the index of the guarantee that gives it (-1: chance does), the progress after it.
-- If prizes are watched, before the progress those of them that it takes the budget to hold. Nil if
-- they were planned from something else.
local function steps_of(own, pool)
    local plan, reached = own.plan, own.reached[pool.number]
    if reached then
        return reached
    end
    for index = 1, plan and #plan or 0, 3 do
        if plan[index] == pool.number then
            if plan[index + 1] ~= (own.before[pool.number] or '') then
                return nil
            end
            reached = { steps = plan[index + 2], at = 0 }
            own.reached[pool.number] = reached
            return reached
        end
    end
    return nil
end

-- Whether a unit of a prize is in stock, not held, and one that the user may have.
local function can_be_given(c, prize, denied)
    local own = c.own
    if own.is_held[prize] or denied and denied[prize] then
        return false
    end
    local most = own.most[prize]
    if not most then
        return true
    end
    return own.taken[prize] + (own.prizes[prize] or 0) < most + cards_of(c, prize)
end

-- A number in a unit (see codec.rs).
local function pack_number(number)
    if number < 128 then
        return string.char(number)
    elseif number < 16384 then
        return struct.pack('>I2', number + 0x8000)
    elseif number < 2097152 then
        return string.sub(struct.pack('>I4', number + 0xC00000), 2)
    elseif number < 268435456 then
        return struct.pack('>I4', number + 0xE0000000)
    end
    return '\240' .. struct.pack('>I8', number)
end

-- How the results of wins of a prize begin, until the number of the unit.
local function head_of(own, number, prize, is_guaranteed)
    local added = is_guaranteed and GUARANTEED or 0
    local heads = own.heads[number + added] or {}
    own.heads[number + added] = heads
    heads[prize] = cmsgpack.pack(number * 2 + 3 + added, prize) .. NO_SCORE .. own.mark
    return heads[prize]
end

-- The result of a win of a prize that is taken off stock: by a pool (or GUARANTEES), and by the
-- guarantee of this index (-1: chance gives it).
local function give_off_stock(c, number, prize, guarantee)
    local own = c.own
    local units = own.units[number] or 0
    own.units[number], own.prizes[prize] = units + 1, (own.prizes[prize] or 0) + 1
    local heads = own.heads[guarantee >= 0 and number + GUARANTEED or number]
    local head = heads and heads[prize]
    if not head then
        head = head_of(own, number, prize, guarantee >= 0)
    end
    local result = head .. pack_number(own.given[number] + units)
    if guarantee >= 0 then
        result = result .. cmsgpack.pack(guarantee)
    end
    return result
end

-- What a personal pool gives to the next draw that reaches it: whether that is known, the result
-- (nil: nothing), and the prize (nil: none). The user may not have the prizes in `denied`, among
-- them those that the budget holds, which are in `over`.
local function take_own(c, pool, denied, over)
    local own = c.own
    local reached = steps_of(own, pool)
    if not reached then
        return false
    end
    local steps, at = reached.steps, reached.at
    local prize = steps[at + 1]
    if not prize then
        return true -- it gives the user nothing more
    elseif own.watched and steps[at + 4] ~= watched_over(own, over) then
        return false
    end
    reached.at = at + own.width
    if prize < 0 then
        return true, steps[at + 2]
    end
    local guarantee = steps[at + 3]
    if not can_be_given(c, prize, denied) then
        prize, guarantee = pool.fallback, -1
        if prize < 0 or not can_be_given(c, prize, denied) then
            return true
        end
    end
    return true, give_off_stock(c, pool.number, prize, guarantee), prize
end

-- Sets the progress of a user in a pool, in these fields of the record; pools ascend. The fields
-- after it.
local function set_progress(more, pool, value)
    more = more or {}
    local progress, at = more.progress or {}, 1
    more.progress = progress
    while progress[at] and progress[at] < pool do
        at = at + 2
    end
    if progress[at] ~= pool then
        table.insert(progress, at, pool)
        table.insert(progress, at + 1, value)
    end
    progress[at + 1] = value
    return more
end

-- Keeps what the draw at hand has taken. The fields of the record after it.
local function keep_own(c, more)
    local own = c.own
    for pool, reached in pairs(own.reached) do
        if reached.at > 0 then
            more = set_progress(more, pool, reached.steps[reached.at])
        end
    end
    for pool, units in pairs(own.units) do
        own.given[pool], own.new[pool] = own.given[pool] + units, (own.new[pool] or 0) + units
    end
    for prize, units in pairs(own.prizes) do
        own.now[prize] = (own.now[prize] or 0) + units
        own.taken[prize] = (own.taken[prize] or 0) + units
    end
    return more
end

-- Adds what was taken to counters of the campaign.
local function count_own(c, counts)
    for prize, units in pairs(c.own.now) do
        local won = string.format('won:%d', prize)
        counts[won] = (counts[won] or 0) + units
        counts[string.format('taken:%d', prize)] = units
    end
    for pool, units in pairs(c.own.new) do
        counts[string.format('given:%d', pool)] = units
    end
end

return read_own, begin_own, take_own, keep_own, count_own, wrong_guess, can_be_given,
    give_off_stock, set_progress
