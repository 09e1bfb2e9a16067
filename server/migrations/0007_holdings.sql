-- How much is stored for whom. What an older server stored counts against nobody.
CREATE TABLE holdings (
    owner TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
);
-- Who brought it, and has it counted until it is gone.
ALTER TABLE objects ADD COLUMN owner TEXT;
ALTER TABLE modules ADD COLUMN owner TEXT;
