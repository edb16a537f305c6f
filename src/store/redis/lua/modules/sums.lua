-- Shared by the scripts that count sums which may pass 2^63: a sum is what its field holds and
-- 10^18 times what the field with `:high` behind its name holds. No change is more than 2^53 either
-- way.
--
-- Gives  check_sums, add_to_sum
local SUM_PART = 1e18

-- What is counted must be numbers, for a count that fails would leave the rest half done.
local function check_sums(key, names)
    local fields = {}
    for index, name in ipairs(names) do
        fields[index * 2 - 1], fields[index * 2] = name, name .. ':high'
    end
    for index, value in ipairs(redis.call('HMGET', key, unpack(fields))) do
        local is_number = value and string.find(value, '^%-?%d+$')
        if value and not (is_number and math.abs(tonumber(value)) < 4 * SUM_PART) then
            error('WRONGTYPE ' .. key .. ': ' .. fields[index] .. ' is no sum', 0)
        end
    end
end

local function add_to_sum(key, name, change)
    local sum = redis.call('HINCRBY', key, name, change)
    if sum >= SUM_PART then
        redis.call('HINCRBY', key, name, '-1000000000000000000')
        redis.call('HINCRBY', key, name .. ':high', '1')
    elseif sum <= -SUM_PART then
        redis.call('HINCRBY', key, name, '1000000000000000000')
        redis.call('HINCRBY', key, name .. ':high', '-1')
    end
end

return check_sums, add_to_sum
