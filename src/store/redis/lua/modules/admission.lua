-- Admission: whether a draw is made. That depends on what is remembered of its request, its deadline, the campaign's state, and the
-- user's limits and bonus draws.
--
-- Reads  record, packed
--        a campaign `c`: now, oldest, today, earliest, not_after, is_open, lifecycle, limits
--        the kind of a draw: asked, expire, count, is_paid
-- Gives  load_user, admit, charge
--        They work on `user`, one table that is used again for each draw: the stored record; its counts as they change; `has`: whether
--        draws of the user lie in fields of their own; `known`: the draw that this request has made; `before`, `before_request`: the
--        latest draw, if it is another one. Draws are as a field of their own has them.
local six, read, start_of = packed.six, record.read, record.start_of
local bytes, sub = struct.pack, string.sub

local NOBODY = '\0\0\0\0\0\0\0\0\0' -- the record of one who has not drawn

-- Bonus draws that have not lapsed, soonest to lapse first, and how many they are; nil if there are none.
local function open_bonus(bonus, now)
    local kept, left = {}, 0
    for _, grant in ipairs(bonus) do
        if now < grant[1] and grant[2] > 0 then
            kept[#kept + 1] = grant
            left = left + grant[2]
        end
    end
    return left > 0 and kept or nil, left
end

-- Takes draws of a bonus, which has as many.
local function take_bonus(bonus, owed)
    for _, grant in ipairs(bonus) do
        local part = math.min(owed, grant[2])
        grant[2] = grant[2] - part
        owed = owed - part
    end
end

-- Reads a record into `user`; none for one who has not drawn.
local function load_user(c, user, stored, request)
    user.stored, user.known, user.before = stored, nil, nil
    if not stored then
        user.has, user.day, user.free, user.paid, user.drawn = 0, 0, 0, 0, 0
        user.bonus_used, user.won, user.left, user.bonus = 0, 0, 0, nil
        return
    end
    local has, day, free, paid, drawn, bonus_used, won, left, bonus, length = read(stored)
    if has >= LATEST then
        has = has - LATEST
        local at, its_request, rest = struct.unpack('>I5c8', stored, length + 1)
        at = start_of(day) + at
        if at >= c.oldest then
            local draw = bytes('>I7', at) .. six(free, paid, drawn, bonus_used, won, left) .. sub(stored, rest)
            if its_request == request then
                user.known = draw
            else
                user.before, user.before_request = draw, its_request
            end
        end
    end
    user.has, user.day, user.free, user.paid, user.drawn = has, day, free, paid, drawn
    user.bonus_used, user.won, user.left, user.bonus = bonus_used, won, left, bonus
end

-- How many of a draw's units are regular draws: as many as the limits allow. The rest are bonus draws, which pay for free draws only;
-- nil if there are too few.
local function regular_draws(limits, user, kind)
    local count = kind.count
    local room
    if kind.is_paid then
        room = limits.paid_day - user.paid
    else
        room = limits.day - user.free
    end
    local regular = limits.user - (user.drawn - user.bonus_used)
    if regular > room then
        regular = room
    end
    if regular >= count then
        return count
    elseif regular < 0 then
        regular = 0
    end
    if count - regular > (kind.is_paid and 0 or user.left) then
        return nil
    end
    return regular
end

-- Why a draw is not made, as a letter and what belongs to it (see draw.lua); nil if it is made, with the number of regular draws.
local function admit(c, number, user, kind)
    local known = user.known
    if known then
        local rest = cmsgpack.unpack_limit(known, 7, 7)
        if sub(known, rest + 1, rest + #kind.asked) == kind.asked then
            return 'R', known
        end
        return 'U', ''
    elseif c.now > c.earliest and c.now > c.not_after(number) then
        return 'P', ''
    elseif kind.expire > 0 and c.now > kind.expire then
        return 'E', ''
    elseif not c.is_open then
        return 'A', tostring(c.lifecycle)
    end
    -- A later day starts at zero.
    if c.today > user.day then
        user.free, user.paid = 0, 0
    end
    user.left = 0
    if user.bonus then
        user.bonus, user.left = open_bonus(user.bonus, c.now)
    end
    local regular = regular_draws(c.limits, user, kind)
    if not regular then
        return 'Q', user.stored or NOBODY
    end
    return nil, regular
end

-- Counts a draw that is made.
local function charge(user, kind, regular)
    local count = kind.count
    if kind.is_paid then
        user.paid = user.paid + count
    else
        user.free = user.free + regular
        local bonus = count - regular
        if bonus > 0 then
            take_bonus(user.bonus, bonus)
            user.bonus_used, user.left = user.bonus_used + bonus, user.left - bonus
        end
    end
    user.drawn = user.drawn + count
end

return { load_user = load_user, admit = admit, charge = charge }
