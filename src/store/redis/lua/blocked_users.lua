-- Lists blocked users of a campaign by id, with the notes of their blocks.
--
-- KEYS  partition, campaign, blocked, blocks
-- ARGV  clock, store id and witnesses, the lower bound of the members of blocks, most users
-- reply {now, 'M'}: no such campaign
--       {now, number of all blocked users, members of blocks}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { digits(now), 'M' }
end

-- The user's field in a member of blocks: twelve bytes after the zero that ends the id.
local function field_of(member)
    local zero = string.find(member, '\0', 1, true)
    return string.sub(member, zero + 1, zero + 12)
end

local most, members, offset = tonumber(ARGV[4]), {}, 0
repeat
    local part = redis.call('ZRANGEBYLEX', KEYS[4], ARGV[3], '+', 'LIMIT', offset, most)
    for _, member in ipairs(part) do
        -- An older version of tombola unblocks a user without removing the member.
        if #members < most and redis.call('SISMEMBER', KEYS[3], field_of(member)) == 1 then
            members[#members + 1] = member
        end
    end
    offset = offset + #part
until #part < most or #members == most
return { digits(now), redis.call('SCARD', KEYS[3]), members }
