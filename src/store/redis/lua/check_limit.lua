-- Reads the records of many users, for `CheckLimit`, with the fields of their campaigns that decide
-- whether a user may draw.
--
-- KEYS  partition, then for each campaign: campaign, the hashes that contain its users' records
-- ARGV  clock, store id and witnesses, number of campaigns, then for each: number of these hashes,
--       one byte for each user (the index of the user's hash, from 0), each user's field
-- reply {now, for each campaign: {some of its fields and values, for each user the record or nil}}
--       or, instead of a campaign's part: 'M': no such campaign; 'X' and what is wrong
local refusal, now = open_to_read()
if refusal then
    return refusal
end
-- All fields but the counters: a campaign has one of them for each queue.
local names = { 'version', 'lifecycle', 'touched', 'held', 'versions', 'nonce', 'commitment',
    'blocked' }

local function read(key, arg)
    local values = redis.call('HMGET', KEYS[key], unpack(names))
    if not values[1] then
        return 'M'
    end
    local fields = {}
    for index, name in ipairs(names) do
        if values[index] then
            fields[#fields + 1] = name
            fields[#fields + 1] = values[index]
        end
    end
    local hash_of, answer = ARGV[arg + 1], { fields }
    local records = read_records(key + 1, tonumber(ARGV[arg]), hash_of, arg + 2, 1)
    for index = 1, #hash_of do
        answer[index + 1] = records[ARGV[arg + 1 + index]]
    end
    return answer
end

local reply, key, arg = { digits(now) }, 2, 4
for index = 1, tonumber(ARGV[3]) do
    local is_sound, answer = pcall(read, key, arg)
    if not is_sound then
        answer = 'X' .. (type(answer) == 'table' and answer.err or tostring(answer))
    end
    reply[index + 1] = answer
    key, arg = key + 1 + tonumber(ARGV[arg]), arg + 2 + #ARGV[arg + 1]
end
return reply
