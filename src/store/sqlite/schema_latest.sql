-- What version 20 of the schema adds: the latest draw of a user is remembered in the row of the
-- user's record, where sequence is its ledger entry. Draws before it have rows of their own, as all
-- had until then. Version 19 would not look there.

ALTER TABLE users ADD COLUMN latest TEXT; -- of a record: the request id of the latest draw, if it is remembered

-- In the log, a request beside a record is the user's latest from now on. Until then it stood for a
-- row of its own, and gets one. So do requests without a record: the same request may be in both, and
-- its highest number, which is its last one, must come last.
INSERT INTO changed_users (no, campaign, user, request, sequence)
SELECT ROW_NUMBER() OVER () + (
           SELECT MAX(MAX(no), COALESCE(SUM(sequence) FILTER (WHERE no = 0), 0)) FROM changed_users
       ), campaign, user, request, MAX(sequence)
FROM changed_users
WHERE no > 0 AND sequence IS NOT NULL
GROUP BY campaign, user, request;
UPDATE changed_users SET request = '', sequence = NULL
WHERE no > 0 AND draws IS NOT NULL AND sequence IS NOT NULL;

INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '20');
