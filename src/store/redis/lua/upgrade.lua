-- Raises the format of a partition to that of this version. From then on, versions that read
-- only older formats are refused.
--
-- KEYS  partition
-- ARGV  clock, store id and witnesses, 1 to raise it (otherwise the script only checks whether that
--       is possible)
-- reply {head}
--       {head, 'O', format, moment}: a service that reads only up to this older format has probed
--       at this moment, within the last minute
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
local RECENT = 60 * 1000000
local fields = redis.call('HGETALL', KEYS[1])
for index = 1, #fields, 2 do
    local format = tonumber(string.match(fields[index], '^reader:(%d+)$'))
    if format and format < FORMAT and now - tonumber(fields[index + 1]) < RECENT then
        return { reply_head(now, replid, 0), 'O', digits(format), fields[index + 1] }
    end
end
if ARGV[3] == '1' then
    -- Versions before format 3 compare `format`, and know no `min_reader`.
    redis.call('HSET', KEYS[1], 'min_reader', FORMAT, 'format', FORMAT)
end
return { reply_head(now, replid, 0) }
