-- Lists campaigns by their moments, the earliest first: those that the injector has something to do
-- with, or closed ones. A moment of 0 counts in any case.
--
-- KEYS  partition, due or closed campaigns
-- ARGV  clock, store id and witnesses, how much later than now still counts (microseconds), most
--       ids, score and id of the campaign after which to begin, or twice nothing
-- reply {now, ids and scores in turn}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
local due_until = math.max(now + tonumber(ARGV[3]), 0)
local most, score = tonumber(ARGV[4]), tonumber(ARGV[5])
local first = 0
if score then
    if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[6]) or '') == score then
        first = redis.call('ZRANK', KEYS[2], ARGV[6]) + 1
    else
        -- It has another moment by now: begin with those that were due with it.
        first = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[5])
    end
end
local found, due = redis.call('ZRANGE', KEYS[2], first, first + most - 1, 'WITHSCORES'), {}
for index = 1, #found, 2 do
    if tonumber(found[index + 1]) > due_until then
        break
    end
    due[index], due[index + 1] = found[index], found[index + 1]
end
return { digits(now), due }
