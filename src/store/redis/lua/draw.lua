-- Draws for users of campaigns of one partition, in the order given, each whole or not at all. Everything is decided first and
-- written last; every key that is written is read before, so that one of a wrong type stops its campaign with nothing half done.
--
-- KEYS  partition, ledger, long requests of this generation and of the one before
--       for each campaign: campaign, blocked, for each pool: its wins (schedules only), its queues
--       for each draw of it: the user's bucket, the request's bucket of this generation and of the one before
-- ARGV  clock, store id, generation, request memory in microseconds, number of campaigns
--       for each campaign: id, version, layout, days, number of draws
--       for each draw of it: user field, request field, {what, not after, expire, payment digest}, ledger part
--       (layout, days and braces: msgpack, see codec.rs)
-- reply {now}, then for each campaign: a list of a reply for each draw, and the pools that run low; or why there is none:
--       'M' no such campaign, 'V' another version, 'Y' another day, 'X' and what is wrong
--       {now, 'L'}: the store is not the one it was; {now, 'G', generation}: another generation
--       a draw: 'D' done, 'R' replayed, each with its record; 'U' request id reused, 'P' past its deadline, 'E' expired,
--       'A' and the lifecycle: the campaign takes no draws, 'Q' and the user's record: a limit, 'F' and {pool, cards}: a need

local store, sequence, last, generation =
    unpack(redis.call('HMGET', KEYS[1], 'store', 'sequence', 'last', 'generation'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
if generation ~= ARGV[3] then
    return { digits(now), 'G', generation }
end
redis.call('XLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
sequence, generation = tonumber(sequence), tonumber(generation)
local oldest = now - tonumber(ARGV[4])
local LONG = 64 -- bytes of a value that a compact hash still takes
local LOW = 500 -- cards waiting in a deck below which its next chunk is asked for
local UNLIMITED = 2 ^ 53

local pack, unpack_values = cmsgpack.pack, cmsgpack.unpack
local call, floor = redis.call, math.floor
local key, arg = 5, 6 -- the next of each

-- A remembered draw of this user, if there is one.
local function recall(user, request_key, previous_key, field)
    local found = call('HGET', request_key, field)
    if found == '' then
        found = call('HGET', KEYS[3], field)
    end
    if not found and user.drew_before then
        found = call('HGET', previous_key, field)
        if found == '' then
            found = call('HGET', KEYS[4], field)
        end
    end
    if found and unpack_values(found) < oldest then
        return false
    end
    return found
end

local function load_user(user_key, field)
    local stored = call('HGET', user_key, field)
    local user = { key = user_key, field = field }
    if stored then
        local memory
        user.day, user.free, user.paid, user.draws, user.bonus_used, user.wins, memory, user.bonus = unpack_values(stored)
        local drew, before = floor(memory / 2), memory % 2
        user.drew_before = (drew == generation and before == 1) or (drew == generation - 1 and drew > 0)
    else
        user.is_new = true
        user.day, user.free, user.paid, user.draws, user.bonus_used, user.wins = 0, 0, 0, 0, 0, 0
    end
    return user
end

local function record_of(user)
    local memory = generation * 2 + (user.drew_before and 1 or 0)
    if user.bonus then
        return pack(user.day, user.free, user.paid, user.draws, user.bonus_used, user.wins, memory, user.bonus)
    end
    return pack(user.day, user.free, user.paid, user.draws, user.bonus_used, user.wins, memory)
end

-- A later day starts at zero, lapsed bonus draws are gone.
local function bring_to(user, today)
    if today > user.day then
        user.day, user.free, user.paid = today, 0, 0
    end
    if user.bonus then
        local kept = {}
        for _, grant in ipairs(user.bonus) do
            if now < grant[1] and grant[2] > 0 then
                kept[#kept + 1] = grant
            end
        end
        user.bonus = #kept > 0 and kept or nil
    end
end

local function bonus_left(user)
    local left = 0
    for _, grant in ipairs(user.bonus or {}) do
        left = left + grant[2]
    end
    return left
end

local function left_of(limit, used)
    if limit < 0 then
        return UNLIMITED
    end
    return math.max(limit - used, 0)
end

-- How many of `count` are regular draws, the rest bonus draws; nil where a limit refuses them.
local function admit(user, limits, is_paid, count)
    local total_left = left_of(limits.user, user.draws - user.bonus_used)
    local day_left = is_paid and left_of(limits.paid_day, user.paid) or left_of(limits.day, user.free)
    local regular = math.min(count, day_left, total_left)
    if count - regular > (is_paid and 0 or bonus_left(user)) then
        return nil
    end
    return regular
end

local function charge(user, is_paid, count, regular)
    if is_paid then
        user.paid = user.paid + count
    else
        user.free = user.free + regular
        local owed = count - regular
        user.bonus_used = user.bonus_used + owed
        for _, grant in ipairs(user.bonus or {}) do
            local part = math.min(owed, grant[2])
            grant[2] = grant[2] - part
            owed = owed - part
        end
    end
    user.draws = user.draws + count
end

-- Reads more of a queue's head.
local function read_ahead(pool, queue)
    local wanted = pool.chunk
    local part = call('ZRANGE', queue.key, queue.have, queue.have + wanted - 1, 'WITHSCORES')
    for place = 1, #part, 2 do
        queue.have = queue.have + 1
        queue.members[queue.have] = part[place]
        queue.scores[queue.have] = tonumber(part[place + 1])
    end
    queue.is_whole = #part < wanted * 2
end

-- The queue whose head has the lowest score, those of held prizes aside.
local function first_waiting(pool)
    if pool.first ~= nil then
        return pool.first
    end
    local first, score, member = false, nil, nil
    for _, queue in ipairs(pool.queues) do
        if not queue.is_held then
            local at = queue.taken + 1
            if at > queue.have and not queue.is_whole then
                read_ahead(pool, queue)
            end
            local its = queue.scores[at]
            if its and (not first or its < score or (its == score and queue.members[at] < member)) then
                first, score, member = queue, its, queue.members[at]
            end
        end
    end
    pool.first = first
    return first
end

local items, writes = {}, {}

local function draw_all(campaign, draws)
    local c = campaign
    local users, requests = {}, {}
    local replies = {}
    local entries, done = {}, 0
    local new_users, wins, consolations, nothings = 0, 0, 0, 0
    local picks = {}

    -- The result of one draw as msgpack; nil and the need where a pool must be filled first.
    local function draw_one(user, drawn, won, picked)
        for number, pool in ipairs(c.pools) do
            if user.draws + drawn >= pool.unlock then
                if not pool.is_deck and now >= pool.gate then
                    return nil, pack(number - 1, 0)
                end
                local queue = first_waiting(pool)
                local at = queue and queue.taken + 1
                if queue and (pool.is_deck or queue.scores[at] <= now) then
                    queue.taken = at
                    pool.first = nil
                    picked = picked + 1
                    picks[picked] = queue
                    if queue.prize < 0 then
                        return false, picked, won
                    end
                    won = won + c.counts_as_win[queue.prize + 1]
                    local member = queue.members[at]
                    if pool.is_deck then
                        return pack(3, queue.prize, number - 1) .. member, picked, won
                    end
                    local window = unpack_values(member)
                    local offset = queue.scores[at] - window * 1000000
                    return pack(2, queue.prize, number - 1, offset) .. member, picked, won
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
        return false, picked, won
    end

    for place = 1, draws do
        local user_key, request_key, previous_key = KEYS[key], KEYS[key + 1], KEYS[key + 2]
        local user_field, request_field, head, part = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
        key, arg = key + 3, arg + 4
        local what, not_after, expire, payment = unpack_values(head)
        local user = users[user_field]
        if not user then
            user = load_user(user_key, user_field)
            users[user_field] = user
        end
        local known = requests[request_field] or recall(user, request_key, previous_key, request_field)
        local reply
        if known then
            local _, _, _, its_what, its_payment = unpack_values(known)
            reply = (its_what == what and its_payment == payment) and 'R' .. known or 'U'
        elseif now > not_after then
            reply = 'P'
        elseif expire > 0 and now > expire then
            reply = 'E'
        elseif not c.is_open then
            reply = 'A' .. c.lifecycle
        else
            bring_to(user, c.today)
            local count, is_paid = floor(what / 4), floor(what / 2) % 2 == 1
            local regular = admit(user, c.limits, is_paid, count)
            if not regular then
                reply = 'Q' .. record_of(user)
            else
                local is_barred = what % 2 == 1 or (c.blocked > 0 and call('SISMEMBER', c.blocked_key, user_field) == 1)
                local results, won, picked, need = '', user.wins, 0, nil
                local units, plain = 0, 0
                for drawn = 0, count - 1 do
                    local result = false
                    if not is_barred and won < c.limits.wins then
                        local picked_now, won_now
                        result, picked_now, won_now = draw_one(user, drawn, won, picked)
                        if result == nil then
                            need = picked_now
                            break
                        end
                        picked, won = picked_now, won_now
                    end
                    if result then
                        units = units + 1
                        results = results .. result
                    else
                        plain = plain + 1
                        results = results .. c.without
                    end
                end
                if need then
                    for pick = 1, picked do
                        picks[pick].taken = picks[pick].taken - 1
                        picks[pick].pool.first = nil
                    end
                    reply = 'F' .. need
                else
                    charge(user, is_paid, count, regular)
                    user.wins = won
                    user.is_changed = true
                    sequence = sequence + 1
                    done = done + 1
                    wins = wins + units
                    local answer = pack(user.free, user.paid, user.draws, user.bonus_used, won, bonus_left(user)) .. results
                    local record = pack(now, sequence, c.version, what, payment) .. answer
                    entries[done] = part .. answer
                    requests[request_field] = record
                    if c.has_consolation then
                        consolations = consolations + plain
                    else
                        nothings = nothings + plain
                    end
                    writes[#writes + 1] = request_key
                    writes[#writes + 1] = request_field
                    if #record > LONG then
                        writes[#writes + 1] = ''
                        writes[#writes + 1] = KEYS[3]
                        writes[#writes + 1] = request_field
                    end
                    writes[#writes + 1] = record
                    reply = 'D' .. record
                end
            end
        end
        replies[place] = reply
    end
    if done == 0 then
        return replies, ''
    end

    local low = ''
    local taken = {} -- queue, how many
    for number, pool in ipairs(c.pools) do
        local waiting, gone = 0, 0
        for _, queue in ipairs(pool.queues) do
            if queue.taken > 0 then
                taken[#taken + 1] = queue
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
    for _, user in pairs(users) do
        if user.is_changed then
            new_users = new_users + (user.is_new and 1 or 0)
            writes[#writes + 1] = user.key
            writes[#writes + 1] = user.field
            writes[#writes + 1] = record_of(user)
        end
    end
    items[#items + 1] = {
        campaign = c,
        last = sequence,
        done = done,
        blob = table.concat(entries),
        taken = taken,
        counts = { users = new_users, wins = wins, consolations = consolations, nothings = nothings },
    }
    return replies, low
end

-- Reads one campaign of the batch; a string where it cannot be drawn from now.
local function read_campaign()
    local c = { key = KEYS[key], blocked_key = KEYS[key + 1], id = ARGV[arg] }
    local version, layout, days, draws = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3], tonumber(ARGV[arg + 4])
    key, arg = key + 2, arg + 5
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
                taken = 0, have = 0, members = {}, scores = {},
            }
            key = key + 1
        end
        pool.chunk = math.max(8, math.ceil(draws / math.max(#slots, 1)))
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
        c.counts_as_win = counts_as_win
        c.limits = { day = day, paid_day = paid_day, user = user, wins = wins < 0 and UNLIMITED or wins }
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
for place = 1, tonumber(ARGV[5]) do
    local c, draws, open = read_campaign()
    local next_key, next_arg = key + draws * 3, arg + draws * 4
    local sequence_before, writes_before = sequence, #writes
    local is_sound, answer, low = pcall(function()
        local refusal = open()
        if refusal then
            return refusal
        end
        return draw_all(c, draws)
    end)
    if not is_sound then
        sequence = sequence_before
        for extra = #writes, writes_before + 1, -1 do
            writes[extra] = nil
        end
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    key, arg = next_key, next_arg
    reply[place + 1] = type(answer) == 'table' and { answer, low } or answer
end

if #items == 0 then
    return reply
end
for _, item in ipairs(items) do
    local c = item.campaign
    call('XADD', KEYS[2], digits(item.last) .. '-0', 'c', c.id, 't', digits(now), 'v', c.version, 'n', item.done, 'd', item.blob)
end
call('HSET', KEYS[1], 'sequence', digits(sequence), 'last', digits(now))
for place = 1, #writes, 3 do
    call('HSET', writes[place], writes[place + 1], writes[place + 2])
end
for _, item in ipairs(items) do
    local c = item.campaign
    for name, count in pairs(item.counts) do
        if count > 0 then
            call('HINCRBY', c.key, name, count)
        end
    end
    if not c.is_touched then
        call('HSET', c.key, 'touched', '1')
        call('HINCRBY', c.key, 'revision', 1)
    end
    local won = {}
    for _, queue in ipairs(item.taken) do
        call('ZREMRANGEBYRANK', queue.key, 0, queue.taken - 1)
        call('HINCRBY', c.key, 'waiting:' .. queue.number .. ':' .. queue.prize, -queue.taken)
        if queue.prize >= 0 then
            won[queue.prize] = (won[queue.prize] or 0) + queue.taken
            if not queue.pool.is_deck then
                local by_window = {}
                for at = 1, queue.taken do
                    local window = unpack_values(queue.members[at])
                    by_window[window] = (by_window[window] or 0) + 1
                end
                for window, units in pairs(by_window) do
                    call('HINCRBY', queue.pool.wins_key, digits(window) .. ':' .. queue.prize, units)
                end
            end
        end
    end
    for prize, units in pairs(won) do
        call('HINCRBY', c.key, 'won:' .. prize, units)
    end
end
return reply
