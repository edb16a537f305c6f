-- Shared by all scripts: the clock.
--
-- ARGV[1]  clock: microseconds, the last moment that the calling service has seen; or `=` and the
--          moment of a test clock
--
-- Gives  digits, server_time, read_clock

-- Whole numbers, which beyond 14 digits would come out in exponent form. `%d` takes a third of the
-- time of `%.0f`, but holds 32 bits on some machines, so moments are put together from two parts.
local function digits(number)
    if number > -2147483648 and number < 2147483648 then
        return string.format('%d', number)
    elseif number > 0 and number < 2147483648000000 then
        local low = number % 1000000
        return string.format('%d%06d', (number - low) / 1000000, low)
    end
    return string.format('%.0f', number)
end

-- The server's time in microseconds.
local function server_time()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

-- The store's clock in microseconds. It is never behind `last`, the moment of the partition's last
-- entry, nor behind the moment that the calling service has seen. Besides the server's own time,
-- which is read only if it is needed.
local function read_clock(last)
    local seen, test = tonumber(ARGV[1]) or 0, tonumber(string.match(ARGV[1], '^=(%d+)$'))
    local time = not test and server_time() or nil
    return math.max(test or time, seen, tonumber(last) or 0), time
end

return digits, server_time, read_clock
