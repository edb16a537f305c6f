-- Records of users, as `record.rs` describes them: how one is read.
--
-- Gives  start_of, read_record, after_counts
local byte_of = string.byte

-- The moment from which that of a record's draw is counted: two days before its day in UTC, for in
-- its zone that may have begun up to a day earlier.
local function start_of(day)
    return (day - 2) * 86400 * 1000000
end

-- Reads the fields that extend a record: `length` bytes of the record come before them (-1: there
-- are none). The results are the number of bytes up to their end, in the same way, and the fields,
-- nil if there are none: `prizes`, the wins of prizes while they had caps (prize, wins of the day,
-- wins in all, and so on); `hour` and `in_hour`, the start of an hour in seconds and the free draws
-- of it; `granted`, the bonus draws that callers granted on the day; `bonus_today`, the bonus draws
-- made on the day; `progress`, the progress in personal pools (pool and a text, and so on).
local function read_fields(record, length)
    local size = struct.unpack('>I2', record, length + 1)
    local after, more = length + 2 + size, nil
    if size > EXTENSION_BYTES_MAX or after > #record then
        error('the record of a user is malformed', 0)
    elseif size > 0 then
        local values = { cmsgpack.unpack(string.sub(record, length + 3, after)) }
        more = {}
        for index = 1, #values, 2 do
            local tag, value = values[index], values[index + 1]
            local is_list = type(value) == 'table'
            if tag == PRIZES_FIELD and is_list and #value % 3 == 0 then
                more.prizes = value
            elseif tag == HOUR_FIELD and is_list and #value == 2 then
                more.hour, more.in_hour = value[1], value[2]
            elseif tag == GRANTED_FIELD and type(value) == 'number' then
                more.granted = value
            elseif tag == PROGRESS_FIELD and is_list and #value % 2 == 0 then
                more.progress = value
            elseif tag == BONUS_TODAY_FIELD and type(value) == 'number' then
                more.bonus_today = value
            elseif tag == PRIZES_FIELD or tag == HOUR_FIELD or tag == GRANTED_FIELD
                or tag == PROGRESS_FIELD or tag == BONUS_TODAY_FIELD
            then
                error('the record of a user is malformed', 0)
            else
                error('the record of a user has field ' .. tostring(tag)
                    .. ', which this version of tombola does not know', 0)
            end
        end
    end
    return after < #record and after or -1, more
end

-- The number of bytes up to the end of a draw's counts, of which `length` come before them.
local function after_counts(draw, length)
    if byte_of(draw, length + 1) ~= EXTENDED_COUNTS then
        return (cmsgpack.unpack_limit(draw, 6, length))
    end
    return (read_fields(draw, (cmsgpack.unpack_limit(draw, 6, length + 1))))
end

-- What a record holds besides its counts (OLDER and LATEST), its day, its six counts, bonus draws
-- where there are any, how many bytes there are before its latest draw (-1: it ends there), and its
-- fields, where there are any, also as they are packed.
local function read_record(record)
    local head = struct.unpack('>I3', record)
    local has = head % 16
    local day = (head - has) / 16
    if has >= PLAIN and has < EXTENDED then
        local length, free, drawn, won = cmsgpack.unpack_limit(record, 3, 3)
        return has - PLAIN, day, free, 0, drawn, 0, won, 0, nil, length
    end
    local bonus, more, packed
    local length, free, paid, drawn, bonus_used, won, left = cmsgpack.unpack_limit(record, 6, 3)
    if has >= EXTENDED then
        has = has - EXTENDED
        if left > 0 then
            length, bonus = cmsgpack.unpack_one(record, length)
        end
        local begin = length + 1
        length, more = read_fields(record, length)
        packed = string.sub(record, begin, length)
    elseif has >= BONUS then
        has = has - BONUS
        length, bonus = cmsgpack.unpack_one(record, length)
    end
    return has, day, free, paid, drawn, bonus_used, won, left, bonus, length, more, packed
end

return start_of, read_record, after_counts
