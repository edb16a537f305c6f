-- Reads users' records and whether their campaigns are still the versions that the caller knows.
--
-- KEYS  partition, then for each campaign: campaign, and for each user of it the bucket
-- ARGV  clock, store id, number of campaigns, then for each: number of users, and of each the field
-- reply {now, 'L'}: the store is not the one it was
--       {now, for each campaign: {fields and values that tell of it, for each user the record where there is one}, or 'M': no such
--       campaign, or 'X' and what is wrong}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
-- Not its counters, of which there is one for each queue.
local names = { 'version', 'lifecycle', 'touched', 'held', 'versions', 'nonce', 'commitment', 'blocked' }

local function read(key, arg, users)
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
    local answer = { fields }
    for place = 1, users do
        answer[place + 1] = redis.call('HGET', KEYS[key + place], ARGV[arg + place])
    end
    return answer
end

local reply, key, arg = { digits(now) }, 2, 4
for place = 1, tonumber(ARGV[3]) do
    local users = tonumber(ARGV[arg])
    local is_sound, answer = pcall(read, key, arg, users)
    if not is_sound then
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    reply[place + 1] = answer
    key, arg = key + 1 + users, arg + 1 + users
end
return reply
