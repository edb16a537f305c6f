-- The Lua that Redis runs: its own names, those of numbers (see src/store/redis/format/constants.rs), and those that modules give.
std = "lua51"
max_line_length = 100
read_globals = {
    "redis", "cmsgpack", "struct", "KEYS", "ARGV",
    "FORMAT", "FULL_ENTRIES_FORMAT", "CAPS_FORMAT", "OLDER", "LATEST", "BONUS", "PLAIN", "EXTENDED", "EXTENSION_BYTES_MAX", "PRIZES_FIELD", "HOUR_FIELD", "GRANTED_FIELD", "PROGRESS_FIELD", "BONUS_TODAY_FIELD", "EXTENDED_COUNTS", "COMPACT_BYTES_MAX", "A_GRANT", "LOW_CARDS",
    "FORFEITED", "BLANK", "CODED", "GUARANTEED", "GUARANTEES", "NOTHING_DUE", "WINS_LIMIT", "PRIZE_CAP", "BUDGET", "BLOCKED", "CONSOLATION_ONLY", "LIFECYCLE_OPEN", "LIFECYCLE_PAUSED", "LIFECYCLE_CLOSED", "OPEN_GRANTS_MAX", "MANY_GRABS", "LOW_PACKETS", "LOW_PACKETS_OF_MANY",
    -- what modules return
    "digits", "server_time", "read_clock", -- clock
    "open_to_look", "open_to_read", "allow_full_memory", -- store
    "open_to_write", "server_replid", "reply_head", "number_of_fork", "append", "numbered", "last_number", "ledger_is_gone", -- writing
    "settled_entry", "jumps_after", "jumps_with", "oldest_after", "is_backlogged", -- backlog
    "start_of", "read_record", "after_counts", -- record
    "read_records", -- users
    "pack_six", "pack_three", "pack_sequence_head", "pack_fields", -- packed
    "refusal_of", "regular_draws", "open_bonus", "take_bonus", -- admission
    "recall", "find_draw", "move_older", -- memory
    "grant_bonus", -- bonus
    "first_waiting", "count_windows", -- queues
    "read_budget", "open_budget", "prizes_over", "with_over", "count_spent", -- budget
    "denied_prizes", "count_capped", "is_denied", "cards_of", "is_dealt_on", "forfeit", "count_forfeited", -- denials
    "read_own", "begin_own", "take_own", "keep_own", "count_own", "wrong_guess", "can_be_given", "give_off_stock", "set_progress", -- own
    "read_guarantees", "begin_guarantees", "take_due", "count_for_guarantees", "keep_guarantees", -- guarantees
    "pack_not_won", "draw_units", "find_empty", "refuse_gone", -- pools
    "add_up", -- counters
    "read_campaign", "open_campaign", "read_view", -- campaign
    "draw_batch", -- batch
    "check_sums", "add_to_sum", -- sums
    "read_envelope", "open_envelope", "find_had", "read_due", -- envelope
    "grab_batch", -- grabbing
}
