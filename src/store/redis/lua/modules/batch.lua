-- A batch: the draws of one campaign, in the order given. Everything is decided here; draw.lua
-- writes it.
--
-- Reads  record, users, packed, memory, admission, bonus, own, pools, counters; ARGV as draw.lua
--        describes it
--        a campaign as campaign.lua sets it
-- Gives  draw_batch
local COUNTS = 2 ^ 16 -- three counts below this make one exact number
local NOBODY = '\0\0\0\0\0\0\0\0\0' -- the record of one who has not drawn

-- The kinds of requests, each with the bytes that are remembered of it; and whether one has
-- expired. Grants of callers have `draws` and `lapses`. `limits` are the campaign's, or those of a
-- segment; `closed` has the pools, by number from 1, that are not for the user.
local function read_kinds(c)
    local values, version = { cmsgpack.unpack(c.kinds) }, cmsgpack.pack(c.version)
    local kinds, is_expired, step = {}, false, c.has_segments and 5 or 3
    for index = 1, #values, step do
        local what, expire = values[index], values[index + 1]
        local asked = cmsgpack.pack(what) .. values[index + 2]
        local kind = {
            asked = asked, asked_now = asked .. version, expire = expire,
            count = math.floor(what / 8), is_paid = what % 4 >= 2, is_barred = what % 2 == 1,
            limits = c, closed = nil,
        }
        if what == A_GRANT then
            kind.draws, kind.lapses = cmsgpack.unpack(values[index + 2])
        end
        if c.has_segments then
            local stated = values[index + 3]
            if stated ~= '' then
                kind.asked_now = asked .. cmsgpack.pack(-c.version) .. stated
            end
            read_view(kind, values[index + 4])
        end
        kinds[#kinds + 1] = kind
        is_expired = is_expired or expire > 0 and c.now > expire
    end
    return kinds, is_expired
end

-- The reply to a draw that is refused.
local function refuse(letter, detail)
    if #detail > 65535 then
        error('a record is none', 0)
    end
    return letter .. struct.pack('>I2', #detail) .. detail
end

-- The start of a user's record, up to its latest draw, and the counts of that draw. Users who only
-- had free draws have few different counts in a batch, so their results are cached in `starts` and
-- `counts_of`.
local function start_of_record(starts, counts_of, today, has, free, paid, drawn, bonus_used, won,
    left, bonus, more)
    local is_plain, index = paid + bonus_used + left == 0 and not more, nil
    if is_plain and free + drawn + won < COUNTS then
        index = ((has * COUNTS + free) * COUNTS + drawn) * COUNTS + won
        local start = starts[index]
        if start then
            return start, counts_of[index]
        end
    end
    local counts = pack_six(free, paid, drawn, bonus_used, won, left)
    local middle = counts
    if is_plain then
        has, middle = has + PLAIN, pack_three(free, drawn, won)
    elseif more then
        local fields = pack_fields(more)
        has, middle = has + EXTENDED, counts .. (left > 0 and cmsgpack.pack(bonus) or '') .. fields
        counts = string.char(EXTENDED_COUNTS) .. counts .. fields
    elseif left > 0 then
        has, middle = has + BONUS, counts .. cmsgpack.pack(bonus)
    end
    local start = string.sub(struct.pack('>I4', today * 16 + LATEST + has), 2) .. middle
    if index then
        starts[index], counts_of[index] = start, counts
    end
    return start, counts
end

-- Begins a later day in the fields of a record: wins of the day are 0, and nothing was granted on
-- it. The fields that are left, nil if there are none.
local function begin_day(more)
    local prizes = more.prizes or {}
    for index = 2, #prizes, 3 do
        prizes[index] = 0
    end
    more.granted, more.bonus_today = nil, nil
    return next(more) and more or nil
end

-- The free draws of this hour, by the fields of a record. A clock that steps back gives nothing.
local function draws_of_hour(c, more)
    return more and more.hour and more.hour >= c.hour and more.in_hour or 0
end

-- The draws of the day, with bonus draws.
local function draws_of_day(free, paid, more)
    return free + paid + (more and more.bonus_today or 0)
end

-- Adds free draws of this hour to the fields of a record.
local function add_to_hour(c, more, draws)
    more = more or {}
    if not (more.hour and more.hour >= c.hour) then
        more.hour, more.in_hour = c.hour, 0
    end
    more.in_hour = more.in_hour + draws
    return more
end

-- Decides all draws of a campaign; `sequence` is the number of the last entry. The result, by draw:
-- replies, entries, and which are refused; new records by field, moved draws as HSET takes them;
-- the number of the last entry; counts of draws made, new users, units, results without a unit.
local function decide(c, sequence, records)
    local kinds, is_expired = read_kinds(c)
    local only_kind, kind_of, arg, today = #kinds == 1 and kinds[1], c.kind_of, c.first_arg, c.today
    local may_refuse = is_expired or c.now > c.earliest or not c.is_open or c.is_full
    local moment, char = struct.pack('>I5', c.now - start_of(today)), string.char
    local replies, entries, refused, drawn_now, moved, older = {}, {}, {}, {}, {}, {}
    local done, users, units, nothings, head, head_until = 0, 0, 0, 0, '', -1
    local starts, counts_of = {}, {}
    local has, day, free, paid, drawn, bonus_used, won -- of the user at hand
    local latest_field, latest_request, latest_draw

    for number = 1, c.draws do
        local field, request = ARGV[arg], ARGV[arg + 1]
        local kind = only_kind or kinds[string.byte(kind_of, number) + 1]
        local stored, count = records[field], kind.count
        local letter, detail, regular, results, won_units
        local bonus, known, before, before_request, more
        local left, in_hour = 0, 0
        arg = arg + 2
        if field == latest_field and request ~= latest_request then
            -- The draw before is of the same user: the locals still have what the record says.
            before, before_request = latest_draw, latest_request
            known = has == OLDER and find_draw(c, number, request, moved) or nil
        elseif not stored then
            has, day, free, paid, drawn, bonus_used, won = 0, 0, 0, 0, 0, 0, 0
        else
            has, day, free, paid, drawn, bonus_used, won, bonus, known, before, before_request,
                more = recall(c, stored, number, request, moved)
        end
        if known or may_refuse then
            letter, detail = refusal_of(c, number, kind, known)
        end
        if not letter then
            -- A later day starts at zero.
            if today > day then
                free, paid = 0, 0
                more = more and begin_day(more)
            end
            if c.hour and kind.limits.hour_limit then
                in_hour = draws_of_hour(c, more)
            end
            if bonus then
                bonus, left = open_bonus(bonus, c.now)
            end
            if kind.draws then
                regular, results, won_units = 0, '', 0
                letter, more, bonus, left = grant_bonus(c, kind, more, bonus, left)
                detail = letter == 'Q' and (stored or NOBODY) or ''
            else
                regular = regular_draws(kind, free, paid, drawn - bonus_used, left, in_hour)
                if not regular then
                    letter, detail = 'Q', stored or NOBODY
                else
                    if c.own then
                        begin_own(c, number, more)
                    end
                    results, won, won_units, more = draw_units(c, kind, field, drawn,
                        c.counts_day and draws_of_day(free, paid, more) or 0, won, more)
                    if not results then
                        letter, detail = won_units or 'F', won
                    end
                end
            end
        end
        latest_field = nil
        if letter then
            refused[number], replies[number] = true, refuse(letter, detail)
        else
            if kind.is_paid then
                paid = paid + count
            else
                free = free + regular
                if c.hour and regular > 0 and kind.limits.hour_limit then
                    more = add_to_hour(c, more, regular)
                end
                if count > regular and c.counts_day then
                    more = more or {}
                    more.bonus_today = (more.bonus_today or 0) + count - regular
                end
                if count > regular then
                    take_bonus(bonus, count - regular)
                    bonus_used, left = bonus_used + count - regular, left - (count - regular)
                end
            end
            drawn, sequence, done = drawn + count, sequence + 1, done + 1
            units, nothings = units + won_units, nothings + count - won_units
            if not stored then
                users = users + 1
            elseif before then
                move_older(c, number, before_request, before, has == OLDER, moved, older)
                has = OLDER
            end
            -- The day of a record does not go back, as with another release of the zones' rules.
            local own_day, at, known_starts = today, moment, starts
            if day > today then
                own_day, at, known_starts = day, struct.pack('>I5', c.now - start_of(day)), {}
            end
            local start, counts =
                start_of_record(known_starts, counts_of, own_day, has, free, paid, drawn,
                    bonus_used, won, left, bonus, more)
            if sequence > head_until then
                head, head_until = pack_sequence_head(sequence), sequence - sequence % 256 + 255
            end
            local made = head .. char(sequence % 256) .. kind.asked_now .. results
            local new = start .. at .. request .. made
            -- The next draw is of the same user, and the record has nothing but counts.
            if ARGV[arg] == field and left == 0 and not more then
                latest_field, latest_request, day = field, request, own_day
                latest_draw = struct.pack('>I7', c.now) .. counts .. made
            end
            replies[number], records[field], drawn_now[field] = new, new, new
            entries[done * 2 - 1], entries[done * 2] = counts, results
        end
    end
    return replies, entries, refused, drawn_now, older, sequence, done, users, units, nothings
end

-- New records as HSET takes them, for each hash of users.
local function records_by_hash(fields_of, drawn_now)
    local written = {}
    for number = 1, #fields_of do
        local fields, words, length = fields_of[number], {}, 0
        for index = 1, #fields do
            local field = fields[index]
            local new = drawn_now[field]
            if new then
                words[length + 1], words[length + 2] = field, new
                length = length + 2
                drawn_now[field] = nil -- a user may be there more than once
            end
        end
        written[number] = words
    end
    return written
end

-- What the ledger keeps of those requests whose draws were made.
local function kept_parts(parts, lengths, refused)
    if not next(refused) then
        return parts
    end
    local kept, from = {}, 1
    for number = 1, #lengths / 2 do
        local length = struct.unpack('>I2', lengths, number * 2 - 1)
        if not refused[number] then
            kept[#kept + 1] = string.sub(parts, from, from + length - 1)
        end
        from = from + length
    end
    return table.concat(kept)
end

-- Draws for users of a campaign; `last` is the number of the last entry. The result is the reply,
-- and what is written; no such item if no draw is made.
local function draw_batch(c, last)
    local records, fields_of = read_records(c.first_key, c.hashes, c.hash_of, c.first_arg, 2)
    local replies, entries, refused, drawn_now, older, sequence, done, users, units, nothings =
        decide(c, last, records)
    local reply = table.concat(replies)
    if done == 0 then
        return { reply, '' }, nil
    end
    local sums, wins, taken, low = add_up(c, done, users, units, nothings)
    return { reply, low }, {
        campaign = c, last = sequence, done = done, taken = taken, sums = sums, wins = wins,
        written = records_by_hash(fields_of, drawn_now), older = older,
        parts = kept_parts(c.parts, c.lengths, refused),
        answers = table.concat(entries),
    }
end

return draw_batch
