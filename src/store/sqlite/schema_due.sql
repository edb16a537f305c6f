-- What version 3 of the schema adds: an index of the campaigns that the injector has something to
-- do with.

-- the moment of its next step, as src/store/rules/due.rs has it; none of a closed campaign
ALTER TABLE campaigns ADD COLUMN due INTEGER;
-- the injector finds all of them once, and brings the moment of each to what it is
UPDATE campaigns SET due = 0 WHERE lifecycle <> 3;
CREATE INDEX campaigns_by_due ON campaigns (due, id) WHERE due IS NOT NULL;
