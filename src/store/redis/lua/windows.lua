-- Reads frozen windows of a schedule that end after a moment, by start, with what was won of each.
--
-- KEYS  partition, campaign, windows' ends, windows, wins, then the schedule's queues
-- ARGV  clock, store id and witnesses, end in microseconds, most windows, then the prize of each
--       queue
-- reply {now, 'M'}: no such campaign
--       {now, for each window: start, window, for each queue: units won, units to be released}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { digits(now), 'M' }
end
local windows = {}
local starts = redis.call(
    'ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[3], '+inf', 'LIMIT', '0', ARGV[4])
for _, start in ipairs(starts) do
    local counts = {}
    local finish = redis.call('ZSCORE', KEYS[3], start)
    for index = 6, #KEYS do
        counts[#counts + 1] = redis.call('HGET', KEYS[5], start .. ':' .. ARGV[index - 1]) or '0'
        -- Units to be released before the window's end are of this window. Units that are due may
        -- be of an earlier one, so they are not counted.
        local from = math.max(now + 1, start * 1000000)
        counts[#counts + 1] = redis.call('ZCOUNT', KEYS[index], digits(from), '(' .. finish)
    end
    windows[#windows + 1] = { start, redis.call('HGET', KEYS[4], start), counts }
end
return { digits(now), windows }
