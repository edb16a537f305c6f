-- A campaign of a batch: read from the arguments, then opened as it stands in Redis.
--
-- Reads  store
-- Gives  read, open
local call, unpack_values = redis.call, cmsgpack.unpack

local UNLIMITED = 2 ^ 53

-- A limit, if there is one.
local function bound(limit)
    return limit < 0 and UNLIMITED or limit
end

-- What draws ask for, by kind, each with what is remembered of it.
local function read_kinds(kinds, version)
    local values, read = { unpack_values(kinds) }, {}
    for index = 1, #values, 3 do
        local what, expire, payment = values[index], values[index + 1], values[index + 2]
        local asked = cmsgpack.pack(what) .. payment
        read[#read + 1] = {
            asked = asked, asked_now = asked .. cmsgpack.pack(version), expire = expire, count = math.floor(what / 8),
            is_paid = math.floor(what / 2) % 2 == 1, is_barred = what % 2 == 1,
        }
    end
    return read
end

-- The pools of a layout; `key` is the index of their first key. The result is the index after their last one.
local function read_pools(c, definitions, key)
    c.pools = {}
    for number, definition in ipairs(definitions) do
        local unlock, is_deck, slots = definition[1], definition[2] == 1, definition[3]
        local pool = { unlock = unlock, is_deck = is_deck, up_to = is_deck and '+inf' or store.digits(c.now), queues = {} }
        if not is_deck then
            pool.wins_key = KEYS[key]
            key = key + 1
        end
        for index, prize in ipairs(slots) do
            pool.queues[index] = {
                pool = pool, number = number - 1, prize = prize, key = KEYS[key], taken = 0, have = 0, units = {},
                won = cmsgpack.pack(number * 2 + (is_deck and 1 or 0), prize),
            }
            key = key + 1
        end
        pool.chunk = math.ceil(c.draws / #slots) + 1
        c.pools[number] = pool
    end
    return key
end

-- Reads the arguments of one campaign from these indexes on; besides it, the indexes of the next one.
local function read(key, arg, now, oldest)
    local c = { key = KEYS[key], blocked_key = KEYS[key + 1], long_key = KEYS[key + 2], id = ARGV[arg], now = now, oldest = oldest }
    local layout, hashes, draws, not_after
    c.stored_version, layout, c.days, hashes, draws = unpack(ARGV, arg + 1, arg + 5)
    c.hash_of, c.earliest, not_after = ARGV[arg + 6], tonumber(ARGV[arg + 7]), ARGV[arg + 8]
    c.packed_kinds, c.kind_of, c.parts, c.lengths = unpack(ARGV, arg + 9, arg + 12)
    c.hashes, c.draws = tonumber(hashes), tonumber(draws)
    c.not_after = function(number)
        local high, low = struct.unpack('>I4I4', not_after, number * 8 - 7)
        return high * 4294967296 + low
    end
    local day, paid_day, user, wins, definitions
    c.start, c.finish, day, paid_day, user, wins, c.consolation, c.counts_as_win, definitions = unpack_values(layout)
    c.limits = { day = bound(day), paid_day = bound(paid_day), user = bound(user), wins = bound(wins) }
    c.first_key, c.first_arg = read_pools(c, definitions, key + 3), arg + 13
    c.first_bucket = c.first_key + c.hashes - 1
    return c, c.first_key + c.hashes + c.draws, c.first_arg + c.draws * 2
end

-- Reads a campaign's state. The result is a letter if it cannot be drawn from now (see draw.lua).
local function open(c)
    local now = c.now
    local version, gate, touched = unpack(call('HMGET', c.key, 'version', 'gate', 'touched'))
    if not version then
        return 'M'
    elseif version ~= c.stored_version then
        return 'V'
    end
    local bounds = unpack_values(c.days)
    if now < bounds[1] or now >= bounds[#bounds] then
        return 'Y'
    end
    for index = 1, #bounds - 2, 2 do
        if now >= bounds[index] then
            c.today = bounds[index + 1]
        end
    end
    local held, gates
    c.version, c.is_touched = tonumber(version), touched == '1'
    c.lifecycle, c.blocked, held, gates = unpack_values(gate)
    c.is_open = c.lifecycle == LIFECYCLE_OPEN and now >= c.start and now < c.finish
    c.has_consolation, c.without = c.consolation == 1, cmsgpack.pack(c.consolation)
    c.kinds = read_kinds(c.packed_kinds, c.version)
    c.only_kind = #c.kinds == 1 and c.kinds[1]
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

return { read = read, open = open }
