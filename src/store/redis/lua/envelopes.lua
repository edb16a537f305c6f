-- Reads the state of envelopes that rules decide on, as of one moment.
--
-- KEYS  partition, open envelopes, settled envelopes, then for each: envelope, the bucket of its id
--       among removed envelopes
-- ARGV  clock, store id and witnesses, then for each: its id, its field in that bucket
-- reply {now, then for each its fields and values, or a letter: 'R' it was removed, 'G' its data
--       are gone (it is listed), 'M' there is none, 'X' a key has another type}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local reply = { digits(now) }
for index = 1, (#KEYS - 3) / 2 do
    local fields = redis.pcall('HGETALL', KEYS[index * 2 + 2])
    if not fields.err and #fields == 0 then
        local id, field = ARGV[index * 2 + 1], ARGV[index * 2 + 2]
        local removed = redis.pcall('HEXISTS', KEYS[index * 2 + 3], field)
        fields = type(removed) == 'table' and removed or (removed == 1 and 'R' or 'M')
        if fields == 'M'
            and (redis.call('ZSCORE', KEYS[2], id) or redis.call('ZSCORE', KEYS[3], id)) then
            fields = 'G'
        end
    end
    reply[index + 1] = type(fields) == 'table' and fields.err and 'X' or fields
end
return reply
