-- The well-known script of a red packet: who has not had one yet gets the last packet of a list.
-- KEYS: 1 packets (list), 2 packets taken (list), 3 users who have one (hash), 4 the user's id
-- Replies the packet with the user's id in it as JSON, or nil: nothing left, or the user has one.
if redis.call('HEXISTS', KEYS[3], KEYS[4]) ~= 0 then
    return nil
end
local packet = redis.call('RPOP', KEYS[1])
if packet then
    local taken = cjson.decode(packet)
    taken['userId'] = KEYS[4]
    local text = cjson.encode(taken)
    redis.call('HSET', KEYS[3], KEYS[4], KEYS[4])
    redis.call('LPUSH', KEYS[2], text)
    return text
end
return nil
