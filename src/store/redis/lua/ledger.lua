-- Reads entries of a partition's ledger: items whose last entry is after a sequence number, up to
-- the one that reaches the most entries or bytes.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, sequence, most entries, most bytes
-- reply {now, items}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local ITEMS_AT_ONCE = 8
local after, entries_left, bytes_left = ARGV[3] .. '-0', tonumber(ARGV[4]), tonumber(ARGV[5])
local items = {}
repeat
    local read = redis.call('XRANGE', KEYS[2], '(' .. after, '+', 'COUNT', ITEMS_AT_ONCE)
    for _, item in ipairs(read) do
        local id, fields = item[1], item[2]
        for index = 1, #fields, 2 do
            local value = fields[index + 1]
            bytes_left = bytes_left - #value
            if fields[index] == 'n' then
                entries_left = entries_left - tonumber(value)
            end
        end
        items[#items + 1] = item
        after = id
        if entries_left <= 0 or bytes_left <= 0 then
            return { digits(now), items }
        end
    end
until #read < ITEMS_AT_ONCE
return { digits(now), items }
