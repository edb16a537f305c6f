-- Version 19 of the schema: the removal of settled entries looks up by their numbers which of them
-- are operators' acts and stay.

CREATE INDEX operations_by_sequence ON operations (sequence);
