-- Version 2 of the ledger in PostgreSQL: numbers within campaigns, and forks. Version 1 settles
-- beside it and leaves both empty.

ALTER TABLE tombola.entries
    ADD COLUMN number bigint, -- within the campaign, or among the other entries of the partition
    ADD COLUMN fork integer; -- mark of the store's fork; 0 before the first one
