-- What version 5 of the schema adds: who paused or blocked what, when and why. What version 4 has
-- written has no note.

-- JSON, see src/store/hold.rs; holds that have ended may still be in it
ALTER TABLE campaigns ADD COLUMN holds TEXT;
-- JSON, see src/store/hold.rs
ALTER TABLE blocked ADD COLUMN note TEXT;
