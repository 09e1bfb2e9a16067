-- Whose a host was when it first reported on a case: it stays that for the case, so that every server reads the same log.
ALTER TABLE reporters ADD COLUMN owner TEXT;
