-- Guarantees of a campaign, which are tried before its pools. There is no chance here: one that is
-- due gives the first of its prizes that can be given. (`rules/own.rs` decides the same for other
-- stores.)
--
-- Reads  own
--        a campaign: guarantees (nil: none), own
-- Sets   a campaign's `own`, of the draw at hand: position (draws of the user that were counted),
--        since (by guarantee the draws since one gave one of its prizes)
-- Gives  read_guarantees, begin_guarantees, take_due, count_for_guarantees, keep_guarantees
--        `read_guarantees` is called before the others, which are made only then
local SINCE_MAX = 4294967295

-- Guarantees from a list of lists: the draw that keeps it, its key, its prizes. In the order in
-- which they are tried; `by_key` has the indexes in the order of the keys.
local function read_guarantees(list)
    local guarantees, by_key = {}, {}
    for index = 1, #list do
        local values = list[index]
        local guarantee = { within = values[1], key = values[2], prizes = {}, has = {} }
        for at = 3, #values do
            guarantee.prizes[at - 2], guarantee.has[values[at]] = values[at], true
        end
        guarantees[index], by_key[index] = guarantee, index
    end
    table.sort(by_key, function(one, other)
        return guarantees[one].key < guarantees[other].key
    end)
    guarantees.by_key = by_key
    return guarantees
end

-- Reads what was counted of the user of the draw at hand (see record.rs).
local function begin_guarantees(c)
    local own, counted = c.own, {}
    local values = { cmsgpack.unpack(own.before[GUARANTEES] or '\0') }
    for index = 2, #values, 2 do
        counted[values[index]] = math.floor(values[index + 1] / 2)
    end
    own.position, own.since = values[1], {}
    for index = 1, #c.guarantees do
        own.since[index] = counted[c.guarantees[index].key] or 0
    end
end

-- The result of the next draw and its prize if a guarantee is due that can be kept; else nil. The
-- user may not have the prizes in `denied`; nil: any.
local function take_due(c, denied)
    local since = c.own.since
    for index = 1, #c.guarantees do
        local guarantee = c.guarantees[index]
        if since[index] + 1 >= guarantee.within then
            for at = 1, #guarantee.prizes do
                local prize = guarantee.prizes[at]
                if can_be_given(c, prize, denied) then
                    return give_off_stock(c, GUARANTEES, prize, index - 1), prize
                end
            end
        end
    end
    return nil
end

-- Counts a draw that won a unit of this prize; nil: of none.
local function count_for_guarantees(c, prize)
    local own = c.own
    own.position = own.position + 1
    for index = 1, #c.guarantees do
        local is_kept = prize and c.guarantees[index].has[prize]
        own.since[index] = is_kept and 0 or math.min(own.since[index] + 1, SINCE_MAX)
    end
end

-- Keeps what was counted in these fields of the record; the fields after it.
local function keep_guarantees(c, more)
    local values, length = { c.own.position }, 1
    for _, index in ipairs(c.guarantees.by_key) do
        local since = c.own.since[index]
        if since > 0 then
            values[length + 1], values[length + 2] = c.guarantees[index].key, since * 2
            length = length + 2
        end
    end
    return set_progress(more, GUARANTEES, cmsgpack.pack(unpack(values)))
end

return read_guarantees, begin_guarantees, take_due, count_for_guarantees, keep_guarantees
