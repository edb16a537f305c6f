-- A campaign of a batch, from the script's arguments and from the partition.
--
-- Reads  budget, own, guarantees, pools; KEYS and ARGV as draw.lua describes them
-- Gives  read_campaign, open_campaign, read_view
--
-- A campaign has what the functions here set, and `pools`; a pool has `queues`. What a draw does to
-- a pool or a queue is in pools.lua and queues.lua.
local UNLIMITED = 2 ^ 53

local function bound(limit)
    return limit < 0 and UNLIMITED or limit
end

-- Caps by prize, from a list of prize, cap of a day, cap in all, and so on.
local function read_caps(list)
    local caps = {}
    for index = 1, #list, 3 do
        caps[list[index]] = { day = bound(list[index + 1]), all = bound(list[index + 2]) }
    end
    return caps
end

-- The values of a list as a set.
local function set_of(list)
    local set = {}
    for index = 1, #list do
        set[list[index]] = true
    end
    return set
end

-- Sets how the users of a kind of request are seen, by the segments that their callers state: their
-- limits if these are not the campaign's, and the pools that are not for them (see record.rs).
local function read_view(kind, view)
    local limits, closed = view[1], view[2]
    if #limits > 0 then
        kind.limits = {
            day_limit = bound(limits[1]), paid_day_limit = bound(limits[2]),
            user_limit = bound(limits[3]), wins_limit = bound(limits[4]),
            hour_limit = limits[5] >= 0 and limits[5] or nil,
        }
    end
    if #closed > 0 then
        kind.closed = set_of(closed)
    end
end

-- A pool by its definition, whose keys begin at `key`; besides, the key after them. `blank` begins
-- the result of a blank; the prizes in `coded` have codes; nil: none.
local function read_pool(number, definition, key, draws, digits_now, blank, coded)
    local is_deck, prizes, queues = definition[2] > 0, definition[3], {}
    local pool = {
        number = number, unlock = definition[1], is_deck = is_deck, prizes = prizes,
        up_to = is_deck and '+inf' or digits_now, queues = queues,
        chunk = math.ceil(draws / #prizes) + 1, first = nil, gate = 0, is_behind = false,
        wins_key = nil, bounds = nil, is_own = false, fallback = nil,
    }
    if definition[4] then
        pool.bounds = { wins = bound(definition[4]), draws_today = definition[5] }
    end
    if definition[2] == 2 then
        pool.is_own, pool.fallback = true, definition[6]
        return pool, key
    elseif not is_deck then
        pool.wins_key = KEYS[key]
        key = key + 1
    end
    local result = number * 2 + (is_deck and 3 or 2)
    for index = 1, #prizes do
        local prize = prizes[index]
        queues[index] = {
            pool = pool, prize = prize, key = KEYS[key],
            code = prize < 0 and cmsgpack.pack(blank, number) or cmsgpack.pack(result, prize),
            coded = coded and coded[prize] and cmsgpack.pack(result + CODED, prize),
            units = nil, have = 0, taken = 0, forfeited = 0, is_whole = false, is_held = nil,
        }
        key = key + 1
    end
    return pool, key
end

-- Reads a campaign from the call; besides, the key and the argument after it.
local function read_campaign(key, arg, now, digits_now, oldest, format)
    local id, version, layout, days, hashes, draws, hash_of, earliest, not_after, kinds, kind_of,
        parts, lengths, plans =
        unpack(ARGV, arg, arg + 13)
    local start, finish, day, paid_day, user, wins, consolation, counts_as_win, pools, caps,
        hour_limit, granted_limit, has_segments, counts_day, coded, budget, guarantees =
        cmsgpack.unpack(layout)
    hashes, draws = tonumber(hashes), tonumber(draws)
    local c = {
        now = now, oldest = oldest, -- the moment; that of the oldest draw that is remembered
        format = format, -- of the data
        is_full = false, -- too many entries are not settled: no draw is made
        mark = '0', -- of the fork
        key = KEYS[key], blocked_key = KEYS[key + 1], long_key = KEYS[key + 2], first_key = 0,
        first_older = 0, first_arg = 0,
        looked_up = {}, -- by draw: what its bucket has under its request (false: nothing), if read
        -- its definition
        id = id, expected_version = version, days = days, start = start, finish = finish,
        day_limit = bound(day), paid_day_limit = bound(paid_day), user_limit = bound(user),
        wins_limit = bound(wins),
        given = consolation, counts_as_win = counts_as_win, pools = pools,
        caps = caps and read_caps(caps), hour_limit = hour_limit, granted_limit = granted_limit,
        has_segments = has_segments, counts_day = counts_day,
        coded = coded, -- prizes with codes
        budget = budget and read_budget(budget),
        guarantees = guarantees and read_guarantees(guarantees),
        nothing_due = pack_not_won(format, NOTHING_DUE, consolation),
        -- its draws
        draws = draws, hashes = hashes, hash_of = hash_of, earliest = tonumber(earliest),
        not_after = not_after,
        kinds = kinds, kind_of = kind_of, parts = parts, lengths = lengths, plans = plans,
        -- what `open_campaign` finds
        version = 0, entries = 0,
        today = 0, hour = nil, is_touched = false, is_open = false, lifecycle = 0, blocked = 0,
        next_code = nil, -- by prize the index of the code that its next win gets
        own = nil, -- of what draws take off stock (see own.lua)
    }
    key, arg = key + 3, arg + 14
    coded = coded and set_of(coded)
    for number = 1, #pools do
        pools[number], key = read_pool(number - 1, pools[number], key, draws, digits_now,
            BLANK - consolation, coded)
    end
    c.first_key, c.first_older, c.first_arg = key, key + hashes - 1, arg
    return c, key + hashes + draws, arg + draws * 2
end

-- The last of these starts that is not after a moment, or nil; the last one is the end of all.
local function start_before(starts, now)
    if now < starts[1] or now >= starts[#starts] then
        return nil
    end
    local index = 1
    while now >= starts[index + 1] do
        index = index + 1
    end
    return starts[index]
end

-- The day of a moment; nil if the caller's days do not have it. Besides, the hours that the caller
-- gives, if draws of an hour are limited.
local function day_of(days, now)
    local bounds, hours = cmsgpack.unpack(days)
    local today
    if now < bounds[1] or now >= bounds[#bounds] then
        return nil
    end
    for index = 1, #bounds - 2, 2 do
        if now >= bounds[index] then
            today = bounds[index + 1]
        end
    end
    return today, hours
end

-- By prize the index of the code that its next win gets: the number of its wins, and of the codes
-- that were passed over.
local function read_next_codes(c, skipped)
    local names, next_code = {}, {}
    for index = 1, #c.coded do
        names[index] = string.format('won:%d', c.coded[index])
    end
    local won = redis.call('HMGET', c.key, unpack(names))
    for index = 1, #names do
        next_code[c.coded[index]] = tonumber(won[index] or 0)
    end
    for index = 1, skipped and #skipped or 0, 2 do
        local prize = skipped[index]
        if next_code[prize] then
            next_code[prize] = next_code[prize] + skipped[index + 1]
        end
    end
    return next_code
end

-- Sets what changes without a new version.
local function read_gate(c, gate, now)
    local lifecycle, blocked, held, gates, skipped, revoked = cmsgpack.unpack(gate)
    c.lifecycle, c.blocked = lifecycle, blocked
    c.is_open = lifecycle == LIFECYCLE_OPEN and now >= c.start and now < c.finish
    if c.coded then
        c.next_code = read_next_codes(c, skipped)
    end
    if c.budget then
        open_budget(c, revoked)
    end
    local is_held = set_of(held)
    for number = 1, #c.pools do
        local pool, its_gate = c.pools[number], gates[number]
        pool.gate, pool.is_behind = its_gate, not pool.is_deck and now >= its_gate
        for index = 1, #pool.queues do
            local queue = pool.queues[index]
            queue.is_held = is_held[queue.prize]
        end
    end
    if c.plans ~= '' or c.guarantees then
        read_own(c, held, gates)
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
    local hours
    c.today, hours = day_of(c.days, c.now)
    if c.today and hours then
        local start = start_before(hours, c.now)
        c.hour = start and start / 1000000
    end
    if not c.today or hours and not c.hour then
        return 'Y'
    end
    c.version, c.is_touched, c.entries = tonumber(version), touched == '1', tonumber(entries or 0)
    read_gate(c, gate, c.now)
    return nil
end

return read_campaign, open_campaign, read_view
