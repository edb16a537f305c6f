-- Lists the replicas, the services of this store; announces one before, or takes it off the list.
--
-- It works in a partition that has halted or forked, too: the list is no part of the ledger, no
-- other script reads it, and operators need it then. Times are the server's own, since the store's
-- clock may stand still, or be a test clock. Announcements that are too old are removed by the next
-- one; so are those of the future, which only a clock that was put back leaves.
--
-- KEYS  partition, replicas
-- ARGV  clock, store id and witnesses, microseconds for which an announcement is listed; then, to
--       change the list, the replica's id and what it says (empty: it stops)
-- reply {now, the server's time, id and announcement of each replica in turn}; an announcement is
--       the server's time when it came, a blank, and what the replica says
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local time, all, listed = server_time(), redis.call('HGETALL', KEYS[2]), {}
for index = 1, #all, 2 do
    local id, announcement = all[index], all[index + 1]
    local seen = tonumber(string.match(announcement, '^%d+')) or 0
    if math.abs(time - seen) <= tonumber(ARGV[3]) then
        listed[#listed + 1] = id
        listed[#listed + 1] = announcement
    elseif ARGV[4] then
        redis.call('HDEL', KEYS[2], id)
    end
end
if ARGV[5] == '' then
    redis.call('HDEL', KEYS[2], ARGV[4])
elseif ARGV[5] then
    redis.call('HSET', KEYS[2], ARGV[4], digits(time) .. ' ' .. ARGV[5])
end
return { digits(now), digits(time), listed }
