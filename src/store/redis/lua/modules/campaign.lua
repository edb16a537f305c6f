-- A campaign of a batch, from the script's arguments and from the partition.
--
-- Reads  pools; KEYS and ARGV as draw.lua describes them
-- Gives  read_campaign, open_campaign
--
-- A campaign has what the functions here set, and `pools`; a pool has `queues`. What a draw does to
-- a pool or a queue is in pools.lua and queues.lua.
local UNLIMITED = 2 ^ 53

local function bound(limit)
    return limit < 0 and UNLIMITED or limit
end

-- A pool by its definition, whose keys begin at `key`; besides, the key after them. `blank` begins
-- the result of a blank.
local function read_pool(number, definition, key, draws, digits_now, blank)
    local is_deck, prizes, queues = definition[2] == 1, definition[3], {}
    local pool = {
        number = number, unlock = definition[1], is_deck = is_deck,
        up_to = is_deck and '+inf' or digits_now, queues = queues,
        chunk = math.ceil(draws / #prizes) + 1, first = nil, gate = 0, is_behind = false,
        wins_key = nil,
    }
    if not is_deck then
        pool.wins_key = KEYS[key]
        key = key + 1
    end
    local result = number * 2 + (is_deck and 3 or 2)
    for index = 1, #prizes do
        local prize = prizes[index]
        queues[index] = {
            pool = pool, prize = prize, key = KEYS[key],
            code = prize < 0 and cmsgpack.pack(blank, number) or cmsgpack.pack(result, prize),
            units = nil, have = 0, taken = 0, forfeited = 0, is_whole = false, is_held = nil,
        }
        key = key + 1
    end
    return pool, key
end

-- Reads a campaign from the call; besides, the key and the argument after it.
local function read_campaign(key, arg, now, digits_now, oldest, format)
    local id, version, layout, days, hashes, draws, hash_of, earliest, not_after, kinds, kind_of,
        parts, lengths =
        unpack(ARGV, arg, arg + 12)
    local start, finish, day, paid_day, user, wins, consolation, counts_as_win, pools =
        cmsgpack.unpack(layout)
    hashes, draws = tonumber(hashes), tonumber(draws)
    local c = {
        now = now, oldest = oldest, -- the moment; that of the oldest draw that is remembered
        format = format, -- of the data
        is_full = false, -- too many entries are not settled: no draw is made
        key = KEYS[key], blocked_key = KEYS[key + 1], long_key = KEYS[key + 2], first_key = 0,
        first_older = 0, first_arg = 0,
        -- its definition
        id = id, expected_version = version, days = days, start = start, finish = finish,
        day_limit = bound(day), paid_day_limit = bound(paid_day), user_limit = bound(user),
        wins_limit = bound(wins),
        given = consolation, counts_as_win = counts_as_win, pools = pools,
        nothing_due = pack_not_won(format, NOTHING_DUE, consolation),
        -- its draws
        draws = draws, hashes = hashes, hash_of = hash_of, earliest = tonumber(earliest),
        not_after = not_after,
        kinds = kinds, kind_of = kind_of, parts = parts, lengths = lengths,
        -- what `open_campaign` finds
        version = 0, entries = 0,
        today = 0, is_touched = false, is_open = false, lifecycle = 0, blocked = 0,
    }
    key, arg = key + 3, arg + 13
    for number = 1, #pools do
        pools[number], key = read_pool(number - 1, pools[number], key, draws, digits_now,
            BLANK - consolation)
    end
    c.first_key, c.first_older, c.first_arg = key, key + hashes - 1, arg
    return c, key + hashes + draws, arg + draws * 2
end

-- The day of a moment; nil if the caller's days do not have it.
local function day_of(days, now)
    local bounds, today = cmsgpack.unpack(days), nil
    if now < bounds[1] or now >= bounds[#bounds] then
        return nil
    end
    for index = 1, #bounds - 2, 2 do
        if now >= bounds[index] then
            today = bounds[index + 1]
        end
    end
    return today
end

-- Sets what changes without a new version.
local function read_gate(c, gate, now)
    local lifecycle, blocked, held, gates = cmsgpack.unpack(gate)
    c.lifecycle, c.blocked = lifecycle, blocked
    c.is_open = lifecycle == LIFECYCLE_OPEN and now >= c.start and now < c.finish
    local is_held = {}
    for index = 1, #held do
        is_held[held[index]] = true
    end
    for number = 1, #c.pools do
        local pool, its_gate = c.pools[number], gates[number]
        pool.gate, pool.is_behind = its_gate, not pool.is_deck and now >= its_gate
        for index = 1, #pool.queues do
            local queue = pool.queues[index]
            queue.is_held = is_held[queue.prize]
        end
    end
end

-- Reads a campaign from the partition. The result is a letter if it cannot be drawn from now.
local function open_campaign(c)
    local version, gate, touched, entries =
        unpack(redis.call('HMGET', c.key, 'version', 'gate', 'touched', 'entries'))
    if not version then
        return 'M'
    elseif version ~= c.expected_version then
        return 'V'
    end
    c.today = day_of(c.days, c.now)
    if not c.today then
        return 'Y'
    end
    c.version, c.is_touched, c.entries = tonumber(version), touched == '1', tonumber(entries or 0)
    read_gate(c, gate, c.now)
    return nil
end

return read_campaign, open_campaign
