-- Shared by some scripts: how far a partition is settled, and how much is not.
--
-- Reads  clock
-- Gives  settled_entry, jumps_after, jumps_with, oldest_after, is_backlogged
--
-- Fields of the partition, written from format 4 on:
--   settled   number and moment of the last settled entry; absent until something is settled
--   jumps     for each fork after it: the number of its first entry, `:`, how many numbers the fork
--             has left out, and a blank

-- Number and moment of the last settled entry; nil if nothing is settled.
local function settled_entry()
    local number, at = string.match(redis.call('HGET', KEYS[1], 'settled') or '', '^(%d+) (%d+)$')
    return tonumber(number or ''), tonumber(at or '')
end

-- Forks after an entry: the field `jumps`, and how many numbers they have left out.
local function jumps_after(number)
    local kept, left_out = {}, 0
    for first, count in string.gmatch(redis.call('HGET', KEYS[1], 'jumps') or '', '(%d+):(%d+) ') do
        if tonumber(first) > number then
            kept[#kept + 1] = first .. ':' .. count .. ' '
            left_out = left_out + tonumber(count)
        end
    end
    return table.concat(kept), left_out
end

-- The field `jumps` with one more fork, from entry `last` to entry `first`.
local function jumps_with(last, first)
    return (redis.call('HGET', KEYS[1], 'jumps') or '') .. digits(first) .. ':'
        .. digits(first - last - 1) .. ' '
end

-- The moment of an item of the ledger; nil if it has none.
local function moment_of(item)
    local fields = item[2]
    for index = 1, #fields, 2 do
        if fields[index] == 't' then
            return tonumber(fields[index + 1])
        end
    end
    return nil
end

-- The moment of the first entry after this one; nil if there is none.
local function oldest_after(number)
    local item = redis.call('XRANGE', KEYS[2], '(' .. digits(number) .. '-0', '+', 'COUNT', 1)[1]
    return item and moment_of(item)
end

-- Whether so many entries wait to be settled, or one for so long, that none may be added. `bound`:
-- the number of entries and the microseconds that are too many, with a blank between them; empty if
-- there is no bound. `last` is the number of the last entry.
local function is_backlogged(bound, now, last)
    local entries, age = string.match(bound, '^(%d+) (%d+)$')
    local settled, at = nil, nil
    if entries then
        settled, at = settled_entry()
    end
    if not settled or settled >= last then
        return false
    end
    local _, left_out = jumps_after(settled)
    if last - settled - left_out >= tonumber(entries) then
        return true
    end
    -- What waits is younger than what is settled.
    if now - at < tonumber(age) then
        return false
    end
    local oldest = oldest_after(settled)
    return oldest ~= nil and now - oldest >= tonumber(age)
end

return settled_entry, jumps_after, jumps_with, oldest_after, is_backlogged
