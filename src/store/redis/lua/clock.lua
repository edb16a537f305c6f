-- Shared by all scripts: the store's clock in microseconds, read once a script. It is never behind `last`, the moment that the
-- partition last wrote, nor behind ARGV[1], the moment that the caller was last told; or ARGV[1] is `=` and that of a test clock.
local function clock(last)
    local told, now = tonumber(ARGV[1]) or 0, tonumber(string.match(ARGV[1], '^=(%d+)$'))
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000000 + time[2]
    end
    return math.max(now, told, tonumber(last) or 0)
end

-- Whole numbers beyond 14 digits would come out in exponent form.
local function digits(number)
    return string.format('%.0f', number)
end
