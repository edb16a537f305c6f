-- Draws that are remembered. A user's latest draw lies in the user's record; the next one moves it
-- to a field of its own, in the user's bucket of older draws.
--
-- Reads  KEYS, ARGV, record, packed
--        a campaign: long_key, first_older, first_arg, oldest
-- Sets   a campaign's looked_up
-- Gives  recall, find_draw, move_older
--        A draw's number is its index among those of the campaign. Draws are given as fields of
--        their own have them. Those that this batch has moved are in `moved`, by request, and in
--        `older`, as HSET takes them: a list for each hash, which `older` has by its key too.

-- What the bucket of a draw has under the draw's request. If the draws that follow have the same
-- bucket, as those of a user who draws often, their requests are looked up with the same command.
local function look_up(c, number, request)
    local looked_up, at, arg = c.looked_up, c.first_older + number, c.first_arg + number * 2 - 1
    local key = KEYS[at]
    if looked_up[number] ~= nil then
        return looked_up[number]
    elseif KEYS[at + 1] ~= key then
        return redis.call('HGET', key, request)
    end
    local requests = {}
    while KEYS[at] == key do
        requests[#requests + 1] = ARGV[arg]
        at, arg = at + 1, arg + 2
    end
    local draws = redis.call('HMGET', key, unpack(requests))
    for index = 1, #draws do
        looked_up[number + index - 1] = draws[index]
    end
    return draws[1]
end

-- The draw of a request in a field of its own; nil if none is remembered.
local function find_draw(c, number, request, moved)
    local draw = moved[request] or look_up(c, number, request)
    if draw == '' then
        draw = redis.call('HGET', c.long_key, request)
    end
    if draw and struct.unpack('>I7', draw) >= c.oldest then
        return draw
    end
    return nil
end

-- Reads a user's record: whether there are older draws (OLDER or 0), the day, the six counts, bonus
-- draws; the draw that the request has made; the latest draw if it is another one, and its request;
-- fields of the record.
local function recall(c, stored, number, request, moved)
    local known, before, before_request
    local has, day, free, paid, drawn, bonus_used, won, left, bonus, length, more, packed =
        read_record(stored)
    if has >= LATEST then
        has = has - LATEST
        local at, its_request, rest = struct.unpack('>I5c8', stored, length + 1)
        at = start_of(day) + at
        if at >= c.oldest then
            local counts = pack_six(free, paid, drawn, bonus_used, won, left)
            if more then
                counts = string.char(EXTENDED_COUNTS) .. counts .. packed
            end
            local draw = struct.pack('>I7', at) .. counts .. string.sub(stored, rest)
            if its_request == request then
                known = draw
            else
                before, before_request = draw, its_request
            end
        end
    end
    if has == OLDER and not known then
        known = find_draw(c, number, request, moved)
    end
    return has, day, free, paid, drawn, bonus_used, won, bonus, known, before, before_request,
        more
end

-- Adds a field of a hash to what is written.
local function add_older(older, key, request, draw)
    local words = older[key]
    if not words then
        words = { key }
        older[key], older[#older + 1] = words, words
    end
    words[#words + 1], words[#words + 2] = request, draw
end

-- Gives a draw a field of its own in the bucket of draw `number`.
local function move_older(c, number, request, draw, has_older, moved, older)
    local key = KEYS[c.first_older + number]
    if not has_older then
        redis.call('HLEN', key)
    end
    moved[request] = draw
    if #draw > COMPACT_BYTES_MAX then
        redis.call('HLEN', c.long_key)
        add_older(older, c.long_key, request, draw)
        draw = ''
    end
    add_older(older, key, request, draw)
end

return recall, find_draw, move_older
