-- When some host was last seen to have a module: what no bug is about any more is forgotten by it.
ALTER TABLE modules ADD COLUMN seen BIGINT NOT NULL DEFAULT 0;
