-- Reads the state of a campaign that rules decide on, as of one moment.
--
-- KEYS  partition, campaign, versions
--       then for each schedule: its windows' ends, its windows
-- ARGV  clock, store id and witnesses, the version that the caller knows (0 for none)
--       number of schedules, then for each: its pool, number of windows that are read in any case,
--       their starts in seconds
-- reply {now, 'M'}: no such campaign
--       {now, fields, definition}: the campaign has another version than the caller knows
--       {now, fields, false, windows of each schedule}: starts and windows in turn
--       (the fields are names and values in turn, with the mark of the partition's fork as `mark`
--       and the format of its data as `format`)
local refusal, now, _, _, mark, format = open_to_look()
if refusal then
    return refusal
end
local fields = redis.call('HGETALL', KEYS[2])
if #fields == 0 then
    return { digits(now), 'M' }
end
fields[#fields + 1], fields[#fields + 2] = 'mark', mark
fields[#fields + 1], fields[#fields + 2] = 'format', digits(format)
local campaign = {}
for index = 1, #fields, 2 do
    campaign[fields[index]] = fields[index + 1]
end
if campaign.version ~= ARGV[3] then
    return { digits(now), fields, redis.call('HGET', KEYS[3], campaign.version) }
end
local reply = { digits(now), fields, false }
local key, arg = 4, 5
for _ = 1, tonumber(ARGV[4]) do
    local starts, seen = {}, {}
    local function add(start)
        if not seen[start] then
            seen[start] = true
            starts[#starts + 1] = start
        end
    end
    for _, start in ipairs(redis.call('ZRANGEBYSCORE', KEYS[key], '(' .. digits(now), '+inf')) do
        add(start)
    end
    for start in string.gmatch(campaign['open:' .. ARGV[arg]] or '', '%d+') do
        add(start)
    end
    local named = tonumber(ARGV[arg + 1])
    for index = arg + 2, arg + 1 + named do
        add(ARGV[index])
    end
    local windows = {}
    for _, start in ipairs(starts) do
        local window = redis.call('HGET', KEYS[key + 1], start)
        if window then
            windows[#windows + 1] = start
            windows[#windows + 1] = window
        end
    end
    reply[#reply + 1] = windows
    key, arg = key + 2, arg + 2 + named
end
return reply
