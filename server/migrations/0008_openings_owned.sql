-- Who opened a case, and what counts for it. What an older server opened counts against nobody.
ALTER TABLE openings ADD COLUMN owner TEXT;
ALTER TABLE openings ADD COLUMN counted BIGINT NOT NULL DEFAULT 0;
CREATE INDEX hosts_of_owner ON hosts (owner);
