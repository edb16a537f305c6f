-- What version 16 of the schema adds: draws of the settled ledger are found by their request ids, as
-- in PostgreSQL (see src/ledger/migrations).

CREATE INDEX entries_draws_by_request ON entries (request_id)
    WHERE kind = 'draw' AND request_id IS NOT NULL;
