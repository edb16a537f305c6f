-- Bonus draws that callers grant. (`rules/bonus.rs` decides the same for other stores.)
--
-- Reads  a campaign: now, format, granted_limit
--        the kind of a grant: draws, lapses
-- Gives  grant_bonus
local DRAWS_MAX = 4294967295 -- of grants that lapse at the same moment

-- Adds the draws of a grant to bonus draws that have not lapsed (nil: there are none), soonest to
-- lapse first; false if there would be too many moments.
local function add_grant(bonus, kind)
    local at = 1
    while bonus[at] and bonus[at][1] < kind.lapses do
        at = at + 1
    end
    local known = bonus[at]
    if known and known[1] == kind.lapses then
        known[2] = math.min(known[2] + kind.draws, DRAWS_MAX)
    elseif #bonus >= OPEN_GRANTS_MAX then
        return false
    else
        table.insert(bonus, at, { kind.lapses, kind.draws })
    end
    return true
end

-- Grants bonus draws to a user with these fields of the record (see record.lua) and these bonus
-- draws, `left` in all. The result is a letter if that is refused (see draw.lua), else nil, the
-- fields, the bonus draws, and how many they are.
local function grant_bonus(c, kind, more, bonus, left)
    local granted = more and more.granted or 0
    bonus = bonus or {}
    if c.format < CAPS_FORMAT then
        return 'O'
    elseif kind.lapses <= c.now or c.granted_limit and granted + kind.draws > c.granted_limit
        or not add_grant(bonus, kind)
    then
        return 'Q'
    end
    if c.granted_limit then
        more = more or {}
        more.granted = granted + kind.draws
    end
    return nil, more, bonus, left + kind.draws
end

return grant_bonus
