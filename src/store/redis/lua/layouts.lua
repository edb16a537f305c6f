-- Reads the definitions of campaigns that the caller does not know, many at once.
--
-- KEYS  partition, campaigns, removed campaigns, then for each campaign: campaign, versions
-- ARGV  clock, store id and witnesses, then for each campaign: its id, its field among removed
--       campaigns
-- reply {now, then for each campaign {fields, definition}, its end if it was removed, or a letter:
--       'M' there was never such a campaign, 'A' it is to be read alone: its data are damaged, or
--       the reply has enough definitions}
--       (the fields are names and values in turn, only those that a draw needs)
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local BYTES_MAX = 1048576 -- of definitions, beside the last one
local bytes = 0

local function find(key, id, field)
    local version, slots = unpack(redis.call('HMGET', KEYS[key], 'version', 'slots'))
    if not version then
        if redis.call('EXISTS', KEYS[key]) == 1 or redis.call('ZSCORE', KEYS[2], id) then
            return 'A'
        end
        return redis.call('HGET', KEYS[3], field) or 'M'
    end
    local definition = bytes < BYTES_MAX and redis.call('HGET', KEYS[key + 1], version)
    if not slots or not definition then
        return 'A'
    end
    bytes = bytes + #definition
    return { { 'version', version, 'slots', slots }, definition }
end

local reply = { digits(now) }
for index = 1, (#KEYS - 3) / 2 do
    local is_sound, found = pcall(find, index * 2 + 2, ARGV[index * 2 + 1], ARGV[index * 2 + 2])
    reply[index + 1] = is_sound and found or 'A'
end
return reply
