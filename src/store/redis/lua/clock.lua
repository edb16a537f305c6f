-- Shared by all scripts: the store's clock. ARGV[1] is the moment of a test clock in microseconds, empty for real time;
-- `last` is the partition's last moment. Read once a script, never behind what the partition has written.
local function clock(last)
    local now = tonumber(ARGV[1])
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000000 + time[2]
    end
    return math.max(now, tonumber(last) or 0)
end

-- Whole numbers beyond 14 digits would come out in exponent form.
local function digits(number)
    return string.format('%.0f', number)
end
