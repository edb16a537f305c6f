-- A batch: the draws of one campaign, in the order given. Everything is decided here and written by draw.lua.
--
-- Reads  store, record, packed, admission, memory, pools; a campaign `c` as campaign.lua has read it
-- Gives  run
local byte, six, three = packed.byte, packed.six, packed.three
local bytes, byte_of, sub, call, pack = struct.pack, string.byte, string.sub, redis.call, cmsgpack.pack

-- How records of a day begin, by what they hold.
local function heads_of(today)
    return setmetatable({}, {
        __index = function(made, has)
            made[has] = sub(bytes('>I4', today * 16 + has), 2)
            return made[has]
        end,
    })
end

local function begin(c, sequence)
    local records, fields_of = record.read_all(c.first_key, c.hashes, c.hash_of, c.first_arg, 2)
    return {
        campaign = c, records = records, fields_of = fields_of,
        sequence = sequence, sequence_head = '', head_until = -1, -- the head is the same for 256 numbers
        moment = bytes('>I5', c.now - record.start_of(c.today)), heads = heads_of(c.today),
        replies = {}, entries = {}, refused = {}, -- by number of the draw
        drawn = {}, moved = {}, older = {}, -- new records by field; draws in fields of their own, by request and as they will be written
        done = 0, users = 0, wins = 0, without = 0, -- counts: draws, new users, units, results that are no unit
    }
end

local function refuse(batch, number, letter, detail)
    if #detail > 65535 then
        error('the record of a user is too long', 0)
    end
    batch.refused[number] = true
    batch.replies[number] = letter .. bytes('>I2', #detail) .. detail
end

-- The record of a user after a draw, which is the draw's reply, and its counts.
local function new_record(batch, user, request, kind, results)
    local sequence = batch.sequence
    if sequence > batch.head_until then
        batch.sequence_head = packed.sequence_head(sequence)
        batch.head_until = sequence - sequence % 256 + 255
    end
    local free, paid, drawn, bonus_used, won, left = user.free, user.paid, user.drawn, user.bonus_used, user.won, user.left
    local counts = six(free, paid, drawn, bonus_used, won, left)
    local head
    if paid + bonus_used + left == 0 then
        head = batch.heads[user.has + LATEST + PLAIN] .. three(free, drawn, won)
    elseif left > 0 then
        head = batch.heads[user.has + LATEST + BONUS] .. counts .. pack(user.bonus)
    else
        head = batch.heads[user.has + LATEST] .. counts
    end
    return head .. batch.moment .. request .. batch.sequence_head .. byte[sequence % 256] .. kind.asked_now .. results, counts
end

-- Decides one draw. `user` and `picks` are used again for each.
local function draw(batch, number, user, picks)
    local c = batch.campaign
    local arg = c.first_arg + number * 2 - 2
    local field, request = ARGV[arg], ARGV[arg + 1]
    local bucket_key = KEYS[c.first_bucket + number]
    local kind = c.only_kind or c.kinds[byte_of(c.kind_of, number) + 1]

    admission.load_user(c, user, batch.records[field], request)
    if user.has == OLDER and not user.known then
        user.known = memory.find(c, batch.moved, bucket_key, request)
    end
    local letter, detail = admission.admit(c, number, user, kind)
    if letter then
        return refuse(batch, number, letter, detail)
    end
    local regular = detail

    local is_barred = kind.is_barred or (c.blocked > 0 and call('SISMEMBER', c.blocked_key, field) == 1)
    local results, won, units = pools.draw_units(c, picks, user, kind.count, is_barred)
    if not results then
        pools.give_back(picks)
        local queues, names = pools.find_empty(c.pools)
        if #names > 0 then
            pools.refuse_gone(c.key, queues, call('HMGET', c.key, unpack(names)))
        end
        return refuse(batch, number, 'F', won)
    end

    user.won = won
    admission.charge(user, kind, regular)
    batch.done, batch.sequence = batch.done + 1, batch.sequence + 1
    batch.wins, batch.without = batch.wins + units, batch.without + kind.count - units
    if not user.stored then
        batch.users = batch.users + 1
    end
    if user.before then
        if user.has ~= OLDER then
            call('HLEN', bucket_key)
            user.has = OLDER
        end
        memory.move(c, batch.moved, batch.older, bucket_key, user.before_request, user.before)
    end
    local new, counts = new_record(batch, user, request, kind, results)
    local entries, done = batch.entries, batch.done
    entries[done * 2 - 1], entries[done * 2] = counts, results
    batch.replies[number] = new
    batch.records[field], batch.drawn[field] = new, new
end

-- Fields of counters and what they come to, as HSET takes them; the counters must be numbers. Besides the values of further fields,
-- which are only read.
local function add_up(key, counts, further)
    local names, sums = {}, {}
    for name, count in pairs(counts) do
        if count ~= 0 then
            names[#names + 1] = name
        end
    end
    local counted = #names
    for index = 1, #further do
        names[counted + index] = further[index]
    end
    local values = call('HMGET', key, unpack(names))
    for index = 1, counted do
        local name, value = names[index], values[index]
        if value and not string.find(value, '^%-?%d+$') then
            error(key .. ': ' .. name .. ' is no number', 0)
        end
        sums[index * 2 - 1], sums[index * 2] = name, store.digits((value or 0) + counts[name])
    end
    return sums, { unpack(values, counted + 1, counted + #further) }
end

-- Counts what was taken of a pool: counters in `counted`, windows in `won`, queues in `taken`. True if the pool must be filled soon.
local function count_pool(pool, counted, won, taken)
    local waiting, gone = 0, 0
    for _, queue in ipairs(pool.queues) do
        if queue.taken > 0 then
            taken[#taken + 1] = queue
            counted['waiting:' .. queue.number .. ':' .. queue.prize] = -queue.taken
            if queue.prize >= 0 then
                local name = 'won:' .. queue.prize
                counted[name] = (counted[name] or 0) + queue.taken
                if not pool.is_deck then
                    pools.count_windows(queue, won)
                end
            end
        end
        if pool.is_deck and not queue.is_held then
            gone = gone + queue.taken
            waiting = waiting + call('ZCARD', queue.key)
        end
    end
    if pool.is_deck then
        return pool.gate == 1 and waiting >= LOW_CARDS and waiting - gone < LOW_CARDS
    elseif not won[pool.wins_key] then
        call('HLEN', pool.wins_key)
        return false
    end
    return pool.is_behind -- it gave what is released before its gate
end

-- New records as HSET takes them, for each hash of users.
local function records_by_hash(batch)
    local written = {}
    for number, fields in ipairs(batch.fields_of) do
        local words, length = {}, 0
        for index = 1, #fields do
            local field = fields[index]
            local new = batch.drawn[field]
            if new then
                words[length + 1], words[length + 2] = field, new
                length = length + 2
                batch.drawn[field] = nil -- a user may be there more than once
            end
        end
        written[number] = words
    end
    return written
end

-- What the ledger keeps of those requests whose draws were made.
local function kept_parts(c, refused)
    if not next(refused) then
        return c.parts
    end
    local kept, from = {}, 1
    for number = 1, #c.lengths / 2 do
        local length = struct.unpack('>I2', c.lengths, number * 2 - 1)
        if not refused[number] then
            kept[#kept + 1] = sub(c.parts, from, from + length - 1)
        end
        from = from + length
    end
    return table.concat(kept)
end

-- What is written of a batch, and the pools that must be filled soon, packed.
local function finish(batch)
    local c = batch.campaign
    local counted = {
        users = batch.users, wins = batch.wins, [c.has_consolation and 'consolations' or 'nothings'] = batch.without,
        revision = c.is_touched and 0 or 1, -- the first draw changes what rules read
    }
    local taken, won, low = {}, {}, ''
    for number, pool in ipairs(c.pools) do
        if count_pool(pool, counted, won, taken) then
            low = low .. pack(number - 1)
        end
    end
    local empty, names = pools.find_empty(c.pools)
    local sums, waiting = add_up(c.key, counted, names)
    pools.refuse_gone(c.key, empty, waiting)
    if not c.is_touched then
        sums[#sums + 1], sums[#sums + 2] = 'touched', '1'
    end
    local won_sums = {}
    for wins_key, windows in pairs(won) do
        won_sums[wins_key] = add_up(wins_key, windows, {})
    end
    return {
        campaign = c, last = batch.sequence, done = batch.done, taken = taken, sums = sums, won_sums = won_sums,
        written = records_by_hash(batch), older = batch.older, parts = kept_parts(c, batch.refused),
        answers = table.concat(batch.entries),
    }, low
end

-- Decides all draws of a campaign; `sequence` is the number of the last entry. The result is what draw.lua replies, and what it writes (nil
-- if no draw is made).
local function run(c, sequence)
    local batch, user, picks = begin(c, sequence), {}, { count = 0 }
    for number = 1, c.draws do
        draw(batch, number, user, picks)
    end
    local replies = table.concat(batch.replies)
    if batch.done == 0 then
        return { replies, '' }
    end
    local item, low = finish(batch)
    return { replies, low }, item
end

return { run = run }
