-- Records of many users at once.
--
-- Reads  KEYS, ARGV
-- Gives  read_records

-- The records of users (false: there is none) by field, and the fields in each key. A byte of
-- `key_of` is the index of a user's key from `first_key` on; the fields are every `step`-th
-- argument from `first_arg` on.
local function read_records(first_key, keys, key_of, first_arg, step)
    local fields_of, records, arg, byte_of = {}, {}, first_arg, string.byte
    for number = 1, keys do
        fields_of[number] = {}
    end
    for index = 1, #key_of do
        local fields = fields_of[byte_of(key_of, index) + 1]
        fields[#fields + 1] = ARGV[arg]
        arg = arg + step
    end
    for number = 1, keys do
        local fields = fields_of[number]
        local values = redis.call('HMGET', KEYS[first_key + number - 1], unpack(fields))
        for index = 1, #fields do
            records[fields[index]] = values[index]
        end
    end
    return records, fields_of
end

return read_records
