-- Reads users' records and whether their campaigns are still the versions that the caller knows.
--
-- KEYS  partition, then for each campaign: campaign, those hashes of users that are asked for
-- ARGV  clock, store id and witnesses, number of campaigns, then for each: number of these hashes,
--       the hash of each
--       user in a byte, from 0; of each
--       the field
-- reply {now, for each campaign: {fields and values that tell of it, for each user the record where
--       there is one}, or
--       'M': no such
--       campaign, or 'X' and what is wrong}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
-- Not its counters, of which there is one for each queue.
local names = { 'version', 'lifecycle', 'touched', 'held', 'versions', 'nonce', 'commitment',
    'blocked' }

local function read(key, arg)
    local values = redis.call('HMGET', KEYS[key], unpack(names))
    if not values[1] then
        return 'M'
    end
    local fields = {}
    for place, name in ipairs(names) do
        if values[place] then
            fields[#fields + 1] = name
            fields[#fields + 1] = values[place]
        end
    end
    local hash_of, answer = ARGV[arg + 1], { fields }
    local records = read_records(key + 1, tonumber(ARGV[arg]), hash_of, arg + 2, 1)
    for place = 1, #hash_of do
        answer[place + 1] = records[ARGV[arg + 1 + place]]
    end
    return answer
end

local reply, key, arg = { digits(now) }, 2, 4
for place = 1, tonumber(ARGV[3]) do
    local is_sound, answer = pcall(read, key, arg)
    if not is_sound then
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    reply[place + 1] = answer
    key, arg = key + 1 + tonumber(ARGV[arg]), arg + 2 + #ARGV[arg + 1]
end
return reply
