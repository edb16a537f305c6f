-- Admission: whether a draw is made. That depends on what is remembered of its request, on its
-- deadline, on the campaign, and on the user's limits and bonus draws.
--
-- Reads  record
--        a campaign: now, earliest, not_after, finish, is_open, is_full, lifecycle
--        the kind of a draw: count, expire, is_paid, asked, draws (of a grant), limits
--        limits: user_limit, day_limit, paid_day_limit, hour_limit (nil: none)
-- Gives  refusal_of, regular_draws, open_bonus, take_bonus

-- Whether the deadline of draw `number` has passed.
local function is_late(c, number)
    local high, low = struct.unpack('>I4I4', c.not_after, number * 8 - 7)
    return c.now > high * 4294967296 + low
end

-- Whether callers may grant bonus draws: also before the start, and while the campaign is paused.
local function takes_grants(c)
    return c.now < c.finish
        and (c.lifecycle == LIFECYCLE_OPEN or c.lifecycle == LIFECYCLE_PAUSED)
end

-- Why a draw or a grant is not made whatever the user's limits are: a letter and what is replied
-- with it (see draw.lua); nil if there is no such reason. `known` is the draw that its request has
-- made.
local function refusal_of(c, number, kind, known)
    if known then
        local rest = cmsgpack.unpack_limit(known, 1, after_counts(known, 7))
        if string.sub(known, rest + 1, rest + #kind.asked) == kind.asked then
            return 'R', known
        end
        return 'U', ''
    elseif c.now > c.earliest and is_late(c, number) then
        return 'P', ''
    elseif kind.expire > 0 and c.now > kind.expire then
        return 'E', ''
    elseif not c.is_open and not (kind.draws and takes_grants(c)) then
        return 'A', tostring(c.lifecycle)
    elseif c.is_full then
        return 'B', ''
    end
    return nil
end

-- How many of a draw's `count` are regular draws: as many as the limits allow. The others are bonus
-- draws, of which `left` are left and which pay for free draws only; nil if there are too few.
-- `in_hour` are free draws of this hour.
local function regular_draws(kind, free, paid, regular_before, left, in_hour)
    local limits = kind.limits
    local count, regular = kind.count, limits.user_limit - regular_before
    local room
    if kind.is_paid then
        room, left = limits.paid_day_limit - paid, 0
    else
        room = limits.day_limit - free
        if limits.hour_limit and limits.hour_limit - in_hour < room then
            room = limits.hour_limit - in_hour
        end
    end
    if regular > room then
        regular = room
    end
    if regular >= count then
        return count
    elseif regular < 0 then
        regular = 0
    end
    if count - regular > left then
        return nil
    end
    return regular
end

-- Bonus draws that have not lapsed, soonest to lapse first, and how many they are; nil if there are
-- none.
local function open_bonus(bonus, now)
    local kept, left = {}, 0
    for index = 1, #bonus do
        local grant = bonus[index]
        if now < grant[1] and grant[2] > 0 then
            kept[#kept + 1] = grant
            left = left + grant[2]
        end
    end
    return left > 0 and kept or nil, left
end

-- Takes bonus draws, of which there are enough.
local function take_bonus(bonus, count)
    for index = 1, #bonus do
        local grant = bonus[index]
        local part = math.min(count, grant[2])
        grant[2] = grant[2] - part
        count = count - part
    end
end

return refusal_of, regular_draws, open_bonus, take_bonus
