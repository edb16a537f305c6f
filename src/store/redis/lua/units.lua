-- Reads units of queues by score.
--
-- KEYS  partition, then the queue of each range
-- ARGV  clock, store id and witnesses, most units in all, then for each range: lowest score,
--       highest score, 1 to read from the highest down, most units
-- reply {now, for each range: units}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
local reply, room = { digits(now) }, tonumber(ARGV[3])
for index = 2, #KEYS do
    local at = 4 + (index - 2) * 4
    local command, from, to = 'ZRANGEBYSCORE', ARGV[at], ARGV[at + 1]
    if ARGV[at + 2] == '1' then
        command, from, to = 'ZREVRANGEBYSCORE', to, from
    end
    local limit = math.min(room, tonumber(ARGV[at + 3]))
    local found = limit > 0 and redis.call(command, KEYS[index], from, to, 'LIMIT', 0, limit) or {}
    room = room - #found
    reply[index] = found
end
return reply
