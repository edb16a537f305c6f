-- Version 5 of the ledger in PostgreSQL: what became of each win. Version 4 settles beside it, and
-- its wins are pending.

ALTER TABLE tombola.wins
    ADD COLUMN delivery smallint NOT NULL DEFAULT 0, -- 0 pending, 1 delivered, 2 revoked
    ADD COLUMN delivery_reference text NOT NULL DEFAULT '', -- of the delivery, if there was one
    ADD COLUMN delivery_at timestamptz; -- since when; none while it is pending
