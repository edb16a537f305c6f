-- Draws for users of campaigns of one partition, in the order given, each whole or not at all. Everything is decided first and
-- written last; every key that is written is read before, so that one of a wrong type stops its campaign with nothing half done.
--
-- KEYS  partition, ledger
--       for each campaign: campaign, blocked, long draws, for each pool: its wins (schedules only), its queues
--       for each draw of it: the user's bucket
-- ARGV  clock, store id, request memory in microseconds, number of campaigns
--       for each campaign: id, version, layout, days, number of draws, and of all its draws together:
--       the earliest moment after which one must not begin; that moment of each, in eight bytes
--       what they ask for: {what, expire, payment digest} of each kind; the kind of each in a byte, from 0
--       what the ledger keeps of each, one after another; the lengths of these, in two bytes
--       then for each draw: user field, request field
--       (layout, days and braces: msgpack, see codec.rs)
-- reply {now}, then for each campaign: {the replies to its draws; the pools that run low}; or why there is none:
--       'M' no such campaign, 'V' another version, 'Y' another day, 'X' and what is wrong
--       {now, 'L'}: the store is not the one it was
--       a draw: the user's record with this draw as its latest; or a letter, the length of what follows in two bytes, and that:
--       'R' and the remembered draw: replayed; 'U' request id reused, 'P' past its deadline, 'E' expired,
--       'A' and the lifecycle: the campaign takes no draws, 'Q' and the user's record: a limit, 'F' and {pool, cards}: a need

local store, sequence, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'sequence', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
redis.call('XLEN', KEYS[2])
sequence = tonumber(sequence)
local oldest = now - tonumber(ARGV[3])
local LONG = 64 -- bytes of a value that a compact hash still takes
local LOW = 500 -- cards waiting in a deck below which its next chunk is asked for
local UNLIMITED = 2 ^ 53

local pack, unpack_values = cmsgpack.pack, cmsgpack.unpack
local call, floor, min, char, byte_of, bytes = redis.call, math.floor, math.min, string.char, string.byte, struct.pack
local key, arg = 3, 5 -- the next of each
-- A unit that is not due yet is not less than this.
local undue = pack(now + 1)
local packed_now = pack(now)

-- What a record holds besides its counts (see codec.rs): draws in fields of their own, its latest draw, bonus draws.
local OLDER, LATEST, BONUS = 1, 2, 4
-- A byte each, made once.
local byte = setmetatable({}, {
    __index = function(made, number)
        made[number] = char(number)
        return made[number]
    end,
})

-- Six numbers as `pack` packs them, which takes much longer: small ones are a byte each.
local function pack_six(a, b, c, d, e, f)
    if a < 128 and b < 128 and c < 128 and d < 128 and e < 128 and f < 128 then
        return char(a, b, c, d, e, f)
    end
    return pack(a, b, c, d, e, f)
end

-- A sequence number without its last byte: in four bytes, or in eight.
local function sequence_head(number)
    if number < 4294967296 then
        return string.sub(bytes('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(bytes('>BI4I4', 0xcf, floor(number / 4294967296), number % 4294967296), 1, 8)
end

local function pack_sequence(number)
    return sequence_head(number) .. byte[number % 256]
end

-- A draw in the field of its request.
local function pack_draw(at, its_sequence, counts, asked, results)
    return pack(at) .. pack_sequence(its_sequence) .. counts .. asked .. pack(results)
end

-- Bonus draws that have not lapsed, soonest to lapse first, and how many they are; nil where there are none.
local function open_bonus(bonus)
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
        local part = min(owed, grant[2])
        grant[2] = grant[2] - part
        owed = owed - part
    end
end

-- Reads more of a queue's head.
local function read_ahead(pool, queue)
    local units, have = queue.units, queue.have
    local wanted = math.max(pool.chunk, have) -- twice as many each time
    local part = call('ZRANGE', queue.key, have, have + wanted - 1)
    if have == 0 then
        queue.units = part
    else
        for place = 1, #part do
            units[have + place] = part[place]
        end
    end
    queue.have = have + #part
    queue.is_whole = #part < wanted
end

-- The queue whose first unit has the lowest score, those of held prizes aside. Packed units are in the order of their scores.
local function first_waiting(pool)
    local first, lowest = false, nil
    for number = 1, #pool.queues do
        local queue = pool.queues[number]
        if not queue.is_held then
            local at = queue.taken + 1
            if at > queue.have and not queue.is_whole then
                read_ahead(pool, queue)
            end
            local unit = queue.units[at]
            if unit and (not first or unit < lowest) then
                first, lowest = queue, unit
            end
        end
    end
    pool.first = first
    return first
end

local items, writes, written = {}, {}, 0

-- Will be written once all is decided.
local function put(its_key, field, value)
    writes[written + 1], writes[written + 2], writes[written + 3] = its_key, field, value
    written = written + 3
end

-- What is counted must be numbers, for a count that fails would leave the rest half done.
local function check_counters(its_key, counts)
    local names = {}
    for name in pairs(counts) do
        names[#names + 1] = name
    end
    for place, value in ipairs(call('HMGET', its_key, unpack(names))) do
        if value and not string.find(value, '^%-?%d+$') then
            error(its_key .. ': ' .. names[place] .. ' is no number', 0)
        end
    end
end

-- Counts the units taken from a schedule's queue by window and prize, for each key of wins.
local function count_windows(queue, won)
    local wins_key = queue.pool.wins_key
    local counts, by_window = won[wins_key] or {}, {}
    for at = 1, queue.taken do
        -- Release and window take nine and five bytes.
        local window = string.sub(queue.units[at], 10, 14)
        by_window[window] = (by_window[window] or 0) + 1
    end
    for window, units in pairs(by_window) do
        counts[digits(unpack_values(window)) .. ':' .. queue.prize] = units
    end
    won[wins_key] = counts
end

-- What draws ask for, by kind, each with what is remembered of it.
local function read_kinds(told, version)
    local values, kinds = { unpack_values(told) }, {}
    for place = 1, #values, 3 do
        local what, expire, payment = values[place], values[place + 1], values[place + 2]
        kinds[#kinds + 1] = {
            what = what, expire = expire, payment = payment, asked = pack(version, what, payment),
            count = floor(what / 4), is_paid = floor(what / 2) % 2 == 1, is_barred = what % 2 == 1,
        }
    end
    return kinds
end

-- What the ledger keeps of those draws that were made.
local function kept_parts(parts, lengths, refused)
    if not next(refused) then
        return parts
    end
    local kept, from = {}, 1
    for place = 1, #lengths / 2 do
        local length = struct.unpack('>I2', lengths, place * 2 - 1)
        if not refused[place] then
            kept[#kept + 1] = string.sub(parts, from, from + length - 1)
        end
        from = from + length
    end
    return table.concat(kept)
end

local function draw_all(c, draws)
    local records, moved = {}, {} -- of users and requests that this batch has written
    local replies, entries, done = {}, {}, 0
    local new_users, wins, consolations, nothings = 0, 0, 0, 0
    local picks, picked = {}, 0 -- queues that the draw at hand has taken from
    local pools, limits, counts_as_win, today = c.pools, c.limits, c.counts_as_win, c.today
    local day_limit, paid_day_limit, user_limit, wins_limit = limits.day, limits.paid_day, limits.user, limits.wins
    local kinds, kind_of, refused = read_kinds(c.kinds, c.version), c.kind_of, {}
    local moment, moment_until = '', -1 -- moment and sequence number without its last byte, up to a number

    -- The result of one draw, as msgpack; false where it wins nothing; nil and the need where a pool must be filled first.
    -- Besides the wins of the user after it.
    local function draw_one(drawn, won)
        for number = 1, #pools do
            local pool = pools[number]
            if drawn >= pool.unlock then
                if not pool.is_deck and now >= pool.gate then
                    return nil, pack(number - 1, 0)
                end
                local queue = pool.first
                if queue == nil then
                    queue = first_waiting(pool)
                end
                local at = queue and queue.taken + 1
                local unit = queue and queue.units[at]
                if unit and (pool.is_deck or unit < undue) then
                    queue.taken, pool.first = at, nil
                    picked = picked + 1
                    picks[picked] = queue
                    if queue.prize < 0 then
                        return false, won
                    end
                    return queue.won .. unit, won + counts_as_win[queue.prize + 1]
                elseif pool.is_deck and pool.gate == 1 then
                    local cards = 1
                    for place = 1, picked do
                        if picks[place].pool == pool then
                            cards = cards + 1
                        end
                    end
                    return nil, pack(number - 1, cards)
                end
            end
        end
        return false, won
    end

    local function refuse(place, letter, told)
        refused[place] = true
        replies[place] = letter .. bytes('>I2', #told) .. told
    end

    for place = 1, draws do
        local user_key, user_field, request = KEYS[key], ARGV[arg], ARGV[arg + 1]
        local kind = kinds[byte_of(kind_of, place) + 1]
        key, arg = key + 1, arg + 2

        local stored = records[user_field]
        if stored == nil then
            stored = call('HGET', user_key, user_field)
        end
        local day, free, paid, drawn, bonus_used, won, left, has = 0, 0, 0, 0, 0, 0, 0, 0
        local bonus, known, before
        if stored then
            local at, its_sequence, its_request, version, what, payment, results
            day, free, paid, drawn, bonus_used, won, left, has, bonus, at, its_sequence, its_request, version, what, payment, results =
                unpack_values(stored)
            if has < BONUS then
                bonus, at, its_sequence, its_request, version, what, payment, results =
                    nil, bonus, at, its_sequence, its_request, version, what, payment
            else
                has = has - BONUS
            end
            if has >= LATEST then
                has = has - LATEST
                if at >= oldest then
                    local counts = pack_six(free, paid, drawn, bonus_used, won, left)
                    local its_draw = pack_draw(at, its_sequence, counts, pack(version, what, payment), results)
                    if its_request == request then
                        known = its_draw
                    else
                        before = { its_request, its_draw }
                    end
                end
            end
            if has == OLDER and not known then
                known = moved[request] or call('HGET', user_key, request)
                if known == '' then
                    known = call('HGET', c.long_key, request)
                end
                if known and unpack_values(known) < oldest then
                    known = nil
                end
            end
        end

        if known then
            local _, _, _, _, _, _, _, _, _, what, payment = unpack_values(known)
            if what == kind.what and payment == kind.payment then
                refuse(place, 'R', known)
            else
                refuse(place, 'U', '')
            end
        elseif now > c.earliest and now > c.not_after(place) then
            refuse(place, 'P', '')
        elseif kind.expire > 0 and now > kind.expire then
            refuse(place, 'E', '')
        elseif not c.is_open then
            refuse(place, 'A', tostring(c.lifecycle))
        else
            local count, is_paid, is_barred = kind.count, kind.is_paid, kind.is_barred
            -- A later day starts at zero.
            if today > day then
                free, paid = 0, 0
            end
            left = 0
            if bonus then
                bonus, left = open_bonus(bonus)
            end
            -- As many regular draws as the limits allow, the rest bonus draws, which pay for free draws only.
            local regular = min(count, user_limit - (drawn - bonus_used), is_paid and paid_day_limit - paid or day_limit - free)
            if regular < 0 then
                regular = 0
            end
            if count - regular > (is_paid and 0 or left) then
                refuse(place, 'Q', stored or pack(0, 0, 0, 0, 0, 0, 0, 0))
            else
                is_barred = is_barred or (c.blocked > 0 and call('SISMEMBER', c.blocked_key, user_field) == 1)
                local results, need, units = nil, nil, 0
                picked = 0
                for number = drawn, drawn + count - 1 do
                    local result = false
                    if not is_barred and won < wins_limit then
                        result, won = draw_one(number, won)
                        if result == nil then
                            need = won
                            break
                        end
                    end
                    if result then
                        units = units + 1
                    else
                        result = c.without
                    end
                    results = results and results .. result or result
                end
                if need then
                    for pick = 1, picked do
                        picks[pick].taken = picks[pick].taken - 1
                        picks[pick].pool.first = nil
                    end
                    refuse(place, 'F', need)
                else
                    if is_paid then
                        paid = paid + count
                    else
                        free = free + regular
                        if count > regular then
                            take_bonus(bonus, count - regular)
                            bonus_used, left = bonus_used + count - regular, left - (count - regular)
                        end
                    end
                    drawn = drawn + count
                    sequence, done, wins = sequence + 1, done + 1, wins + units
                    if c.has_consolation then
                        consolations = consolations + count - units
                    else
                        nothings = nothings + count - units
                    end
                    if not stored then
                        new_users = new_users + 1
                    end
                    if before then
                        has = OLDER
                        moved[before[1]] = before[2]
                        put(user_key, before[1], before[2])
                    end
                    if sequence > moment_until then
                        moment = packed_now .. sequence_head(sequence)
                        moment_until = sequence - sequence % 256 + 255
                    end
                    local asked = kind.asked
                    local counts = pack_six(free, paid, drawn, bonus_used, won, left)
                    local length = #results
                    local record
                    if left == 0 and length < 32 then
                        record = c.packed_today .. counts .. byte[has + LATEST] .. moment .. byte[sequence % 256] .. '\171' .. request ..
                            asked .. byte[0xa0 + length] .. results
                    else
                        record = c.packed_today .. counts .. byte[has + LATEST + (left > 0 and BONUS or 0)] ..
                            (left > 0 and pack(bonus) or '') .. moment .. byte[sequence % 256] .. '\171' .. request .. asked .. pack(results)
                    end
                    replies[place] = record
                    entries[done * 2 - 1], entries[done * 2] = counts, results
                    if #record > LONG then
                        -- The draw lies beside the record, and where it is too long for that in a key of its own.
                        local draw = moment .. byte[sequence % 256] .. counts .. asked .. pack(results)
                        moved[request] = draw
                        if #draw > LONG then
                            call('HLEN', c.long_key)
                            put(c.long_key, request, draw)
                            draw = ''
                        end
                        put(user_key, request, draw)
                        record = c.packed_today .. counts .. byte[OLDER + (left > 0 and BONUS or 0)] .. (left > 0 and pack(bonus) or '')
                    end
                    records[user_field] = record
                    put(user_key, user_field, record)
                end
            end
        end
    end
    replies = table.concat(replies)
    if done == 0 then
        return { replies, '' }
    end

    local low = ''
    local counted = {
        users = new_users, wins = wins, consolations = consolations, nothings = nothings,
        revision = c.is_touched and 0 or 1, -- the first draw changes what rules read
    }
    local taken, won = {}, {}
    for number, pool in ipairs(pools) do
        local waiting, gone = 0, 0
        for _, queue in ipairs(pool.queues) do
            if queue.taken > 0 then
                taken[#taken + 1] = queue
                counted['waiting:' .. queue.number .. ':' .. queue.prize] = -queue.taken
                if queue.prize >= 0 then
                    local name = 'won:' .. queue.prize
                    counted[name] = (counted[name] or 0) + queue.taken
                    if not pool.is_deck then
                        count_windows(queue, won)
                    end
                end
            end
            if pool.is_deck and not queue.is_held then
                gone = gone + queue.taken
                waiting = waiting + call('ZCARD', queue.key)
            end
        end
        if not pool.is_deck then
            call('HLEN', pool.wins_key)
        elseif pool.gate == 1 and waiting >= LOW and waiting - gone < LOW then
            low = low .. pack(number - 1)
        end
    end
    check_counters(c.key, counted)
    for wins_key, windows in pairs(won) do
        check_counters(wins_key, windows)
    end
    items[#items + 1] = {
        campaign = c, last = sequence, done = done, taken = taken, counted = counted, won = won,
        parts = kept_parts(c.parts, c.lengths, refused), answers = table.concat(entries),
    }
    return { replies, low }
end

-- A limit, where there is one.
local function bound(limit)
    return limit < 0 and UNLIMITED or limit
end

-- Reads one campaign of the batch; a string where it cannot be drawn from now.
local function read_campaign()
    local c = { key = KEYS[key], blocked_key = KEYS[key + 1], long_key = KEYS[key + 2], id = ARGV[arg] }
    local version, layout, days, draws = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3], tonumber(ARGV[arg + 4])
    local not_after = ARGV[arg + 6]
    c.earliest, c.kinds, c.kind_of, c.parts, c.lengths = tonumber(ARGV[arg + 5]), unpack(ARGV, arg + 7, arg + 10)
    c.not_after = function(place)
        local high, low = struct.unpack('>I4I4', not_after, place * 8 - 7)
        return high * 4294967296 + low
    end
    key, arg = key + 3, arg + 11
    local start, finish, day, paid_day, user, wins, consolation, counts_as_win, pools = unpack_values(layout)
    c.pools = pools
    for number, definition in ipairs(pools) do
        local unlock, is_deck, slots = definition[1], definition[2] == 1, definition[3]
        local pool = { unlock = unlock, is_deck = is_deck, queues = {} }
        if not is_deck then
            pool.wins_key = KEYS[key]
            key = key + 1
        end
        for place, prize in ipairs(slots) do
            pool.queues[place] = {
                pool = pool, number = number - 1, prize = prize, key = KEYS[key],
                taken = 0, have = 0, units = {}, won = pack(is_deck and 3 or 2, prize, number - 1),
            }
            key = key + 1
        end
        pool.chunk = math.ceil(draws / #slots) + 1
        pools[number] = pool
    end
    return c, draws, function()
        local its_version, gate, touched = unpack(call('HMGET', c.key, 'version', 'gate', 'touched'))
        if not its_version then
            return 'M'
        elseif its_version ~= version then
            return 'V'
        end
        local bounds = unpack_values(days)
        if now < bounds[1] or now >= bounds[#bounds] then
            return 'Y'
        end
        for place = 1, #bounds - 2, 2 do
            if now >= bounds[place] then
                c.today = bounds[place + 1]
            end
        end
        local held, gates
        c.version, c.is_touched = tonumber(version), touched == '1'
        c.lifecycle, c.blocked, held, gates = unpack_values(gate)
        c.is_open = c.lifecycle == 0 and now >= start and now < finish
        c.has_consolation = consolation == 1
        c.without = pack(consolation)
        c.packed_today = c.today < 65536 and bytes('>BI2', 0xcd, c.today) or bytes('>BI4', 0xce, c.today)
        c.counts_as_win = counts_as_win
        c.limits = { day = bound(day), paid_day = bound(paid_day), user = bound(user), wins = bound(wins) }
        local is_held = {}
        for _, prize in ipairs(held) do
            is_held[prize] = true
        end
        for number, pool in ipairs(c.pools) do
            pool.gate = gates[number]
            for _, queue in ipairs(pool.queues) do
                queue.is_held = is_held[queue.prize]
            end
        end
        return nil
    end
end

local reply = { digits(now) }
for place = 1, tonumber(ARGV[4]) do
    local c, draws, open = read_campaign()
    local next_key, next_arg = key + draws, arg + draws * 2
    local sequence_before, written_before = sequence, written
    local is_sound, answer = pcall(function()
        local refusal = open()
        if refusal then
            return refusal
        end
        return draw_all(c, draws)
    end)
    if not is_sound then
        sequence, written = sequence_before, written_before
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    key, arg = next_key, next_arg
    reply[place + 1] = answer
end

if #items == 0 then
    return reply
end
for _, item in ipairs(items) do
    local c = item.campaign
    call('XADD', KEYS[2], digits(item.last) .. '-0', 'c', c.id, 't', digits(now), 'v', c.version, 'n', item.done, 'd', item.parts, 'a', item.answers)
end
call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits(now))
for place = 1, written, 3 do
    call('HSET', writes[place], writes[place + 1], writes[place + 2])
end
local function add(its_key, counts)
    for name, count in pairs(counts) do
        if count ~= 0 then
            call('HINCRBY', its_key, name, count)
        end
    end
end
for _, item in ipairs(items) do
    local c = item.campaign
    add(c.key, item.counted)
    if not c.is_touched then
        call('HSET', c.key, 'touched', '1')
    end
    for _, queue in ipairs(item.taken) do
        call('ZREMRANGEBYRANK', queue.key, 0, queue.taken - 1)
    end
    for wins_key, windows in pairs(item.won) do
        add(wins_key, windows)
    end
end
return reply
