-- Numbers as `cmsgpack.pack` packs them, which takes longer.
--
-- Gives  pack_six, pack_three, pack_sequence_head, pack_fields
local char = string.char

-- Small ones are a byte each.
local function pack_six(a, b, c, d, e, f)
    if a < 128 and b < 128 and c < 128 and d < 128 and e < 128 and f < 128 then
        return char(a, b, c, d, e, f)
    end
    return cmsgpack.pack(a, b, c, d, e, f)
end

local function pack_three(a, b, c)
    if a < 128 and b < 128 and c < 128 then
        return char(a, b, c)
    end
    return cmsgpack.pack(a, b, c)
end

-- A sequence number without its last byte, as `pack` packs it: in four bytes, or in eight.
local function pack_sequence_head(number)
    if number < 4294967296 then
        return string.sub(struct.pack('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(struct.pack('>BI8', 0xcf, number), 1, 8)
end

-- The fields of a record (see record.lua).
local function pack_fields(more)
    local prizes, hour, granted, fields = more.prizes, more.hour, more.granted, ''
    local progress, bonus_today = more.progress, more.bonus_today
    if prizes then
        local prize, today, in_all = prizes[1], prizes[2], prizes[3]
        local is_short = #prizes == 3 and prize < 128 and today < 128 and in_all < 128
        if is_short and not (hour or granted or progress or bonus_today) then
            return char(0, 5, PRIZES_FIELD, 0x93, prize, today, in_all)
        end
        fields = cmsgpack.pack(PRIZES_FIELD, prizes)
    end
    if hour then
        fields = fields .. cmsgpack.pack(HOUR_FIELD, { hour, more.in_hour })
    end
    if granted then
        fields = fields .. cmsgpack.pack(GRANTED_FIELD, granted)
    end
    if progress then
        local pool, known = progress[1], progress[2]
        if #progress == 2 and pool < 128 and #known < 32 and fields == '' and not bonus_today then
            return char(0, #known + 4, PROGRESS_FIELD, 0x92, pool, 0xa0 + #known) .. known
        end
        fields = fields .. cmsgpack.pack(PROGRESS_FIELD, progress)
    end
    if bonus_today then
        fields = fields .. cmsgpack.pack(BONUS_TODAY_FIELD, bonus_today)
    end
    return struct.pack('>I2', #fields) .. fields
end

return pack_six, pack_three, pack_sequence_head, pack_fields
