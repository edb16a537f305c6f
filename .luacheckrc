-- The Lua that Redis runs: its own names, and those that come before every script (see src/store/redis/constants.rs).
std = "lua51"
max_line_length = 140
read_globals = {
    "redis", "cmsgpack", "struct", "KEYS", "ARGV",
    "FORMAT", "OLDER", "LATEST", "BONUS", "PLAIN", "EXTENDED", "EXTENSION_BYTES_MAX", "COMPACT_BYTES_MAX", "LOW_CARDS",
    "LIFECYCLE_OPEN", "LIFECYCLE_CLOSED", "MANY_GRABS", "LOW_PACKETS", "LOW_PACKETS_OF_MANY",
    -- modules
    "store", "record", "packed", "queues", "sums",
}
