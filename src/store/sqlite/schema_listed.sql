-- Version 21 of the schema: the table `listed`, which was made before this runs, says which entries
-- of the settled ledger are in lists of draws and wins. It has replaced five indexes (see
-- src/store/sqlite/lists.rs). Version 20 would not write to it.

DELETE FROM meta WHERE key = 'listed';
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '21');

-- Eight runs of the full-text index of about the same size are merged at once, so that a term is
-- written fewer times than with FTS5's own four; a search looks at more runs.
INSERT INTO lookup (lookup, rank) VALUES ('usermerge', 8);
