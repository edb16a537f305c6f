-- Draws for users of campaigns of one partition, in the order given, each whole or not at all.
-- Everything is decided first and written last; every key that is written is read before, so that
-- one of a wrong type stops its campaign with nothing half done. (But for the ledger: it is written
-- first, so it stops the whole script with nothing done.)
--
-- KEYS  partition, ledger
--       for each campaign: campaign, blocked, long draws, for each pool: its wins (schedules only),
--       its queues
--       those hashes of users that its draws are of; for each draw: the bucket of the user's older
--       draws
-- ARGV  clock, store id and witnesses, request memory in microseconds, number of campaigns
--       for each campaign: id, version, layout, days, number of those hashes, number of draws, and
--       of all its draws together:
--       the hash of each's user in a byte, from 0; the earliest moment after which one must not
--       begin; that of each, in eight bytes
--       what they ask for: {what, expire, payment digest} of each kind; the kind of each in a byte,
--       from 0
--       what the ledger keeps of each, one after another; the lengths of these, in two bytes
--       then for each draw: user field, request field
--       (layout, days and braces: msgpack, see codec.rs; records and draws: see record.rs)
-- reply {head}, then for each campaign: {the replies to its draws; the pools that run low or are
--       behind}; or why there is none:
--       'M' no such campaign, 'V' another version, 'Y' another day, 'X' and what is wrong
--       a draw: the user's record with this draw as its latest; or a letter, the length of what
--       follows in two bytes, and that:
--       'R' and the remembered draw: replayed; 'U' request id reused, 'P' past its deadline, 'E'
--       expired,
--       'A' and the lifecycle: the campaign takes no draws, 'Q' and the user's record: a limit, 'F'
--       and {pool, cards}: a need
--
-- Reads  store, record, packed, queues
local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
local now, sequence = partition.now, partition.sequence
local oldest = now - tonumber(ARGV[3])
local UNLIMITED = 2 ^ 53

local pack, unpack_values = cmsgpack.pack, cmsgpack.unpack
local digits, append, head = store.digits, store.append, store.head
local start_of, read_record, read_records = record.start_of, record.read, record.read_all
local byte, pack_six, pack_three, pack_sequence_head = packed.byte, packed.six, packed.three, packed.sequence_head
local first_waiting, count_windows, byte_of = queues.first_waiting, queues.count_windows, string.byte
local call, floor, min, bytes = redis.call, math.floor, math.min, struct.pack
local key, arg = 3, 5 -- the next of each
local NOBODY = '\0\0\0\0\0\0\0\0\0' -- the record of one who has not drawn
local told_now = digits(now)

-- Bonus draws that have not lapsed, soonest to lapse first, and how many they are; nil where there
-- are none.
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

local items = {} -- what will be written once all is decided

-- Fields of counters and what they come to, as HSET takes them. All of them must be numbers.
-- Besides, the values of further fields, which are only read.
local function add_up(its_key, counts, further)
    local names, sums = {}, {}
    for name, count in pairs(counts) do
        if count ~= 0 then
            names[#names + 1] = name
        end
    end
    local counted = #names
    for place = 1, #further do
        names[counted + place] = further[place]
    end
    local values = call('HMGET', its_key, unpack(names))
    for place = 1, counted do
        local value = values[place]
        if value and not string.find(value, '^%-?%d+$') then
            error(its_key .. ': ' .. names[place] .. ' is no number', 0)
        end
        sums[place * 2 - 1], sums[place * 2] = names[place], digits((value or 0) + counts[names[place]])
    end
    return sums, { unpack(values, counted + 1, counted + #further) }
end

-- The queues that were looked at and had nothing, and the names of their counters.
local function find_empty(pools)
    local queues, names = {}, {}
    for number = 1, #pools do
        local its_queues = pools[number].queues
        for place = 1, #its_queues do
            local queue = its_queues[place]
            if queue.is_whole and queue.have == 0 then
                queues[#queues + 1] = queue
                names[#names + 1] = 'waiting:' .. queue.number .. ':' .. queue.prize
            end
        end
    end
    return queues, names
end

-- Stops a campaign of which a queue is gone: its counter says that units wait in it, and no fill is
-- open that has still to bring them.
local function refuse_gone(its_key, queues, counts)
    local keys, waiting = {}, {}
    for place = 1, #queues do
        if tonumber(counts[place] or 0) > 0 then
            keys[#keys + 1], waiting[#waiting + 1] = queues[place].key, queues[place]
        end
    end
    if #keys == 0 or call('EXISTS', unpack(keys)) == #keys then
        return
    end
    for _, queue in ipairs(waiting) do
        local is_filled = queue.pool.is_deck or call('HGET', its_key, 'open:' .. queue.number) == ''
        if is_filled and call('EXISTS', queue.key) == 0 then
            error(queue.key .. ' is gone, and units wait in it', 0)
        end
    end
end

-- What draws ask for, by kind, each with what is remembered of it.
local function read_kinds(told, version)
    local values, kinds = { unpack_values(told) }, {}
    for place = 1, #values, 3 do
        local what, expire, payment = values[place], values[place + 1], values[place + 2]
        local asked = pack(what) .. payment
        kinds[#kinds + 1] = {
            asked = asked, asked_now = asked .. pack(version), expire = expire,
            count = floor(what / 8), is_paid = floor(what / 2) % 2 == 1, is_barred = what % 2 == 1,
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
    local records, users = read_records(c.first_key, c.hashes, c.hash_of, c.first_arg, 2)
    local drawn_now, moved, older = {}, {}, {} -- records by user; draws in fields of their own by request, and as they will be written
    local replies, entries, done = {}, {}, 0
    local new_users, wins, consolations, nothings = 0, 0, 0, 0
    local picks, picked = {}, 0 -- queues that the draw at hand has taken from
    local pools, limits, counts_as_win, today = c.pools, c.limits, c.counts_as_win, c.today
    local day_limit, paid_day_limit, user_limit, wins_limit = limits.day, limits.paid_day, limits.user, limits.wins
    local kinds, kind_of, refused = read_kinds(c.kinds, c.version), c.kind_of, {}
    -- What records have in common: the moment; the sequence number without its last byte, up to
    -- some number.
    local moment = bytes('>I5', now - start_of(today))
    local sequence_head, head_until = '', -1
    local first_older, next_arg = c.first_key + c.hashes - 1, c.first_arg
    local earliest, is_open, blocked, has_consolation, without = c.earliest, c.is_open, c.blocked, c.has_consolation, c.without
    -- How records begin, by what they hold.
    local heads = setmetatable({}, {
        __index = function(made, has)
            made[has] = string.sub(bytes('>I4', today * 16 + has), 2)
            return made[has]
        end,
    })
    local only_kind = #kinds == 1 and kinds[1]

    -- The result of one draw, packed (see record.rs); false where it wins nothing; nil and the need
    -- where a pool must be filled first. Besides the wins of the user after it.
    local function draw_one(drawn, won)
        for number = 1, #pools do
            local pool = pools[number]
            if drawn >= pool.unlock then
                local queue = pool.first
                if queue == nil then
                    queue = first_waiting(pool)
                end
                local at = queue and queue.taken + 1
                local unit = queue and queue.units[at]
                -- What is released before the gate is all there, so the first of it may be drawn
                -- while a fill goes on.
                if unit and not (pool.is_behind and struct.unpack('>I7', unit) >= pool.gate) then
                    queue.taken, pool.first = at, nil
                    picked = picked + 1
                    picks[picked] = queue
                    if queue.prize < 0 then
                        return false, won
                    end
                    return queue.won .. unit, won + counts_as_win[queue.prize + 1]
                elseif pool.is_behind then
                    return nil, pack(number - 1, 0)
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
        if #told > 65535 then
            error('a record is none', 0)
        end
        refused[place] = true
        replies[place] = letter .. bytes('>I2', #told) .. told
    end

    -- A draw gets a field of its own.
    local function move(older_key, its_request, draw)
        moved[its_request] = draw
        if #draw > COMPACT_BYTES_MAX then
            call('HLEN', c.long_key)
            older[#older + 1] = { c.long_key, its_request, draw }
            draw = ''
        end
        older[#older + 1] = { older_key, its_request, draw }
    end

    for place = 1, draws do
        local user_field, request = ARGV[next_arg], ARGV[next_arg + 1]
        local kind = only_kind or kinds[byte_of(kind_of, place) + 1]
        next_arg = next_arg + 2

        local stored = records[user_field]
        local has, day, free, paid, drawn, bonus_used, won, left, bonus = 0, 0, 0, 0, 0, 0, 0
        local known, before, before_request -- the draw of this request, or the latest one, as a field of its own has it
        if stored then
            local length
            has, day, free, paid, drawn, bonus_used, won, left, bonus, length = read_record(stored)
            if has >= LATEST then
                has = has - LATEST
                local at, its_request, rest = struct.unpack('>I5c8', stored, length + 1)
                at = start_of(day) + at
                if at >= oldest then
                    local its_draw = bytes('>I7', at) .. pack_six(free, paid, drawn, bonus_used, won, left) .. string.sub(stored, rest)
                    if its_request == request then
                        known = its_draw
                    else
                        before, before_request = its_draw, its_request
                    end
                end
            end
            if has == OLDER and not known then
                known = moved[request] or call('HGET', KEYS[first_older + place], request)
                if known == '' then
                    known = call('HGET', c.long_key, request)
                end
                if known and struct.unpack('>I7', known) < oldest then
                    known = nil
                end
            end
        end

        if known then
            local rest = cmsgpack.unpack_limit(known, 7, 7)
            if string.sub(known, rest + 1, rest + #kind.asked) == kind.asked then
                refuse(place, 'R', known)
            else
                refuse(place, 'U', '')
            end
        elseif now > earliest and now > c.not_after(place) then
            refuse(place, 'P', '')
        elseif kind.expire > 0 and now > kind.expire then
            refuse(place, 'E', '')
        elseif not is_open then
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
            -- As many regular draws as the limits allow, the rest bonus draws, which pay for free
            -- draws only.
            local regular, room = user_limit - (drawn - bonus_used), is_paid and paid_day_limit - paid or day_limit - free
            if regular > room then
                regular = room
            end
            if regular > count then
                regular = count
            elseif regular < 0 then
                regular = 0
            end
            if count > regular and count - regular > (is_paid and 0 or left) then
                refuse(place, 'Q', stored or NOBODY)
            else
                is_barred = is_barred or (blocked > 0 and call('SISMEMBER', c.blocked_key, user_field) == 1)
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
                        result = without
                    end
                    results = results and results .. result or result
                end
                if need then
                    for pick = 1, picked do
                        picks[pick].taken = picks[pick].taken - 1
                        picks[pick].pool.first = nil
                    end
                    local queues, names = find_empty(pools)
                    if #names > 0 then
                        refuse_gone(c.key, queues, call('HMGET', c.key, unpack(names)))
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
                    if has_consolation then
                        consolations = consolations + count - units
                    else
                        nothings = nothings + count - units
                    end
                    if not stored then
                        new_users = new_users + 1
                    end
                    if before then
                        if has ~= OLDER then
                            call('HLEN', KEYS[first_older + place])
                            has = OLDER
                        end
                        move(KEYS[first_older + place], before_request, before)
                    end
                    if sequence > head_until then
                        sequence_head = pack_sequence_head(sequence)
                        head_until = sequence - sequence % 256 + 255
                    end
                    local counts = pack_six(free, paid, drawn, bonus_used, won, left)
                    local record
                    if paid + bonus_used + left == 0 then
                        record = heads[has + LATEST + PLAIN] .. pack_three(free, drawn, won) .. moment .. request .. sequence_head ..
                            byte[sequence % 256] .. kind.asked_now .. results
                    else
                        record = heads[has + LATEST + (left > 0 and BONUS or 0)] .. counts .. (left > 0 and pack(bonus) or '') .. moment ..
                            request .. sequence_head .. byte[sequence % 256] .. kind.asked_now .. results
                    end
                    replies[place] = record
                    entries[done * 2 - 1], entries[done * 2] = counts, results
                    records[user_field], drawn_now[user_field] = record, record
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
        if not pool.is_deck and not won[pool.wins_key] then
            call('HLEN', pool.wins_key)
        elseif pool.is_behind then
            low = low .. pack(number - 1) -- it gave what is released before its gate
        elseif pool.is_deck and pool.gate == 1 and waiting >= LOW_CARDS and waiting - gone < LOW_CARDS then
            low = low .. pack(number - 1)
        end
    end
    local empty, names = find_empty(pools)
    local sums, waiting = add_up(c.key, counted, names)
    refuse_gone(c.key, empty, waiting)
    if not c.is_touched then
        sums[#sums + 1], sums[#sums + 2] = 'touched', '1'
    end
    local won_sums, written = {}, {}
    for number, fields in ipairs(users) do
        local pairs_now, length = {}, 0
        for place = 1, #fields do
            local field = fields[place]
            local record = drawn_now[field]
            if record then
                pairs_now[length + 1], pairs_now[length + 2] = field, record
                length = length + 2
                drawn_now[field] = nil
            end
        end
        written[number] = pairs_now
    end
    for wins_key, windows in pairs(won) do
        won_sums[wins_key] = add_up(wins_key, windows, {})
    end
    items[#items + 1] = {
        campaign = c, last = sequence, done = done, taken = taken, sums = sums, won_sums = won_sums, written = written, older = older,
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
    local version, layout, days, hashes, draws = unpack(ARGV, arg + 1, arg + 5)
    local not_after = ARGV[arg + 8]
    hashes, draws = tonumber(hashes), tonumber(draws)
    c.hash_of, c.earliest = ARGV[arg + 6], tonumber(ARGV[arg + 7])
    c.kinds, c.kind_of, c.parts, c.lengths = unpack(ARGV, arg + 9, arg + 12)
    c.not_after = function(place)
        local high, low = struct.unpack('>I4I4', not_after, place * 8 - 7)
        return high * 4294967296 + low
    end
    key, arg = key + 3, arg + 13
    local start, finish, day, paid_day, user, wins, consolation, counts_as_win, pools = unpack_values(layout)
    c.pools = pools
    for number, definition in ipairs(pools) do
        local unlock, is_deck, slots = definition[1], definition[2] == 1, definition[3]
        local pool = { unlock = unlock, is_deck = is_deck, up_to = is_deck and '+inf' or told_now, queues = {} }
        if not is_deck then
            pool.wins_key = KEYS[key]
            key = key + 1
        end
        for place, prize in ipairs(slots) do
            pool.queues[place] = {
                pool = pool, number = number - 1, prize = prize, key = KEYS[key],
                taken = 0, have = 0, units = {}, won = pack(number * 2 + (is_deck and 1 or 0), prize),
            }
            key = key + 1
        end
        pool.chunk = math.ceil(draws / #slots) + 1
        pools[number] = pool
    end
    c.first_key, c.hashes, c.first_arg = key, hashes, arg
    key, arg = key + hashes + draws, arg + draws * 2
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
        c.is_open = c.lifecycle == LIFECYCLE_OPEN and now >= start and now < finish
        c.has_consolation = consolation == 1
        c.without = pack(consolation)
        c.counts_as_win = counts_as_win
        c.limits = { day = bound(day), paid_day = bound(paid_day), user = bound(user), wins = bound(wins) }
        local is_held = {}
        for _, prize in ipairs(held) do
            is_held[prize] = true
        end
        for number, pool in ipairs(c.pools) do
            pool.gate = gates[number]
            pool.is_behind = not pool.is_deck and now >= pool.gate
            for _, queue in ipairs(pool.queues) do
                queue.is_held = is_held[queue.prize]
            end
        end
        return nil
    end
end

local reply = { told_now }
for place = 1, tonumber(ARGV[4]) do
    local c, draws, open = read_campaign()
    local sequence_before = sequence
    local is_sound, answer = pcall(function()
        return open() or draw_all(c, draws)
    end)
    if not is_sound then
        sequence = sequence_before
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    reply[place + 1] = answer
end

for _, item in ipairs(items) do
    local c = item.campaign
    if not append(partition, item.last, 'c', c.id, 't', told_now, 'v', c.version, 'n', item.done, 'd', item.parts, 'a', item.answers) then
        return store.ledger_is_gone()
    end
end
reply[1] = head(partition, #items > 0 and sequence or 0)
if #items > 0 then
    call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', told_now)
end
for _, item in ipairs(items) do
    local c = item.campaign
    for number, fields in ipairs(item.written) do
        if #fields > 0 then
            call('HSET', KEYS[c.first_key + number - 1], unpack(fields))
        end
    end
    for _, moved in ipairs(item.older) do
        call('HSET', unpack(moved))
    end
    call('HSET', c.key, unpack(item.sums))
    for _, queue in ipairs(item.taken) do
        call('ZREMRANGEBYRANK', queue.key, 0, queue.taken - 1)
    end
    for wins_key, sums in pairs(item.won_sums) do
        call('HSET', wins_key, unpack(sums))
    end
end
return reply
