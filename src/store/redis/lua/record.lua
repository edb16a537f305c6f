-- Users' records, as `record.rs` tells of them: what a record holds besides its counts, how it is read, how many are read at
-- once.
local OLDER, LATEST, BONUS, PLAIN = 1, 2, 4, 8
local char, byte_of = string.char, string.byte

-- The moment from which that of a record's draw is counted: two days before its day in UTC, for in its zone that may have begun up to
-- a day earlier.
local function start_of(day)
    return (day - 2) * 86400 * 1000000
end

-- What a record holds (PLAIN aside), its day, its six counts, bonus draws where there are any, and how many bytes there are
-- before its latest draw (-1: it ends there).
local function read_record(record)
    local head = struct.unpack('>I3', record)
    local has = head % 16
    local day = (head - has) / 16
    if has >= PLAIN then
        local length, free, drawn, won = cmsgpack.unpack_limit(record, 3, 3)
        return has - PLAIN, day, free, 0, drawn, 0, won, 0, nil, length
    end
    local bonus
    local length, free, paid, drawn, bonus_used, won, left = cmsgpack.unpack_limit(record, 6, 3)
    if has >= BONUS then
        length, bonus = cmsgpack.unpack_one(record, length)
    end
    return has, day, free, paid, drawn, bonus_used, won, left, bonus, length
end

-- The records of users, false where there is none, and the fields in each key. Which of the keys from `first_key` on has the one of each is told by a byte, from 0;
-- the user's field by every `step`-th argument from `first_arg` on.
local function read_records(first_key, keys, key_of, first_arg, step)
    local fields_of, records, arg = {}, {}, first_arg
    for number = 1, keys do
        fields_of[number] = {}
    end
    for place = 1, #key_of do
        local fields = fields_of[byte_of(key_of, place) + 1]
        fields[#fields + 1] = ARGV[arg]
        arg = arg + step
    end
    for number = 1, keys do
        local fields = fields_of[number]
        local values = redis.call('HMGET', KEYS[first_key + number - 1], unpack(fields))
        for place = 1, #fields do
            records[fields[place]] = values[place]
        end
    end
    return records, fields_of
end
