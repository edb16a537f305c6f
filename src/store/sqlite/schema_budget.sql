-- What version 15 of the schema adds: what was won under a budget.

-- the local day of the last win under a budget, and what was won on it in minor units
ALTER TABLE campaigns ADD COLUMN spent_day INTEGER NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN spent_today INTEGER NOT NULL DEFAULT 0;
