-- Records of users, as `record.rs` describes them: how one is read.
--
-- Gives  start_of, read_record
local byte_of = string.byte

-- The moment from which that of a record's draw is counted: two days before its day in UTC, for in
-- its zone that may have begun up to a day earlier.
local function start_of(day)
    return (day - 2) * 86400 * 1000000
end

-- Checks the fields that extend a record: `length` bytes of the record come before them (-1: there
-- are none). The result is the number of bytes up to their end, in the same way.
local function skip_extension(record, length)
    local size = struct.unpack('>I2', record, length + 1)
    local tag = size > 0 and byte_of(record, length + 3)
    if size > EXTENSION_BYTES_MAX or length + 2 + size > #record then
        error('the record of a user is malformed', 0)
    elseif tag then
        error('the record of a user has field ' .. tag
            .. ', which this version of tombola does not know', 0)
    end
    return length + 2 < #record and length + 2 or -1
end

-- What a record holds besides its counts (OLDER and LATEST), its day, its six counts, bonus draws
-- where there are any, and how many bytes there are before its latest draw (-1: it ends there).
local function read_record(record)
    local head = struct.unpack('>I3', record)
    local has = head % 16
    local day = (head - has) / 16
    if has >= PLAIN and has < EXTENDED then
        local length, free, drawn, won = cmsgpack.unpack_limit(record, 3, 3)
        return has - PLAIN, day, free, 0, drawn, 0, won, 0, nil, length
    end
    local bonus
    local length, free, paid, drawn, bonus_used, won, left = cmsgpack.unpack_limit(record, 6, 3)
    if has >= EXTENDED then
        has = has - EXTENDED
        if left > 0 then
            length, bonus = cmsgpack.unpack_one(record, length)
        end
        length = skip_extension(record, length)
    elseif has >= BONUS then
        has = has - BONUS
        length, bonus = cmsgpack.unpack_one(record, length)
    end
    return has, day, free, paid, drawn, bonus_used, won, left, bonus, length
end

return start_of, read_record
