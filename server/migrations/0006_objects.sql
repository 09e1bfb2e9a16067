-- Every object that is stored or about to be. What is not here is not stored, whatever files there are; what nothing refers to is
-- removed some time after it was touched, by whoever has its row.
CREATE TABLE objects (
    key TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL,
    -- When somebody last meant to refer to it.
    touched BIGINT NOT NULL
);
CREATE INDEX objects_by_age ON objects (touched);
CREATE INDEX modules_by_object ON modules (object);
-- How large runs are was not noted.
INSERT INTO objects (key, bytes, touched)
    SELECT object, MAX(bytes), MAX(seen) FROM modules GROUP BY object;
INSERT INTO objects (key, bytes, touched)
    SELECT object, 0, MAX(at) FROM runs
    WHERE object IS NOT NULL AND object NOT IN (SELECT key FROM objects) GROUP BY object;
