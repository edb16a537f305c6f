-- The budget of a campaign: what was won of it, and which prizes would pass it. Amounts are minor
-- units of its currency. (`rules/draw.rs` decides the same for other stores.)
--
-- Reads  clock
--        a campaign: key, today
-- Gives  read_budget, open_budget, prizes_over, with_over, count_spent
--        `read_budget` is called before the others, which are made only then
--
-- A budget has `values` by prize, the largest of them as `most`, the limits of a day and in all,
-- and whether there is one in all. `open_budget` sets the day, what was won on it and in all, and
-- the prizes that are `over`.

local function bound(limit)
    return limit < 0 and math.huge or limit
end

-- A budget from a list: its limit of a day and in all (-1: none), then the value of each prize.
local function read_budget(list)
    local budget = {
        day_limit = bound(list[1]), all_limit = bound(list[2]), has_total = list[2] >= 0,
        values = {}, most = 0,
        day = 0, today = 0, all = 0, over = nil, is_spent = false,
    }
    for index = 3, #list do
        local value = list[index]
        budget.values[index - 3] = value
        budget.most = math.max(budget.most, value)
    end
    return budget
end

-- The prizes of which one more unit would pass the budget, after so much was won on the day and in
-- all; nil: none. A prize without a value never does.
local function prizes_over(budget, today, all)
    local day_limit, all_limit, most = budget.day_limit, budget.all_limit, budget.most
    if today + most <= day_limit and all + most <= all_limit then
        return nil
    end
    local over = nil
    for prize, value in pairs(budget.values) do
        if value > 0 and (today + value > day_limit or all + value > all_limit) then
            over = over or {}
            over[prize] = true
        end
    end
    return over
end

-- Reads what was won of a campaign's budget. The sum in all follows from the units that were won of
-- each prize, without those that are revoked: a list of prizes and numbers in turn, or nil.
local function open_budget(c, revoked)
    local budget, values, names = c.budget, c.budget.values, { 'spent:day', 'spent:today' }
    if budget.has_total then
        for prize = 0, #values do
            names[prize + 3] = string.format('won:%d', prize)
        end
    end
    local found = redis.call('HMGET', c.key, unpack(names))
    local day = tonumber(found[1] or 0)
    budget.day = math.max(day, c.today)
    budget.today = c.today > day and 0 or tonumber(found[2] or 0)
    local back = {}
    for index = 1, budget.has_total and revoked and #revoked or 0, 2 do
        back[revoked[index]] = revoked[index + 1]
    end
    -- Amounts are exact below 2^53, and so is what is won at a time, but not all that was ever won.
    for index = 3, #names do
        local prize = index - 3
        local units = math.max(tonumber(found[index] or 0) - (back[prize] or 0), 0)
        budget.all = budget.all + units * values[prize]
    end
    budget.over = prizes_over(budget, budget.today, budget.all)
end

-- The prizes that are among `denied` or `over`, each nil or a set by prize; nil: none.
local function with_over(c, denied, over)
    if not (denied and over) then
        return denied or over
    end
    local both = {}
    for prize = 0, #c.budget.values do
        both[prize] = denied[prize] or over[prize]
    end
    return both
end

-- Adds what was won of a budget to the fields of a campaign and their values, as HSET takes them.
local function count_spent(budget, sums)
    if budget.is_spent then
        local last = #sums
        sums[last + 1], sums[last + 2] = 'spent:day', digits(budget.day)
        sums[last + 3], sums[last + 4] = 'spent:today', digits(budget.today)
    end
end

return read_budget, open_budget, prizes_over, with_over, count_spent
