-- A file is believed to be the build that it says it is for the programs that whoever uploaded it may report on: patterns, one a
-- line. Those that are there already were believed for all.
CREATE TABLE modules_for_programs (
    build {bytes} NOT NULL,
    programs TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    object TEXT NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (build, programs)
);
INSERT INTO modules_for_programs (build, programs, path, bytes, object, seen)
    SELECT build, '*', path, bytes, object, seen FROM modules;
DROP TABLE modules;
ALTER TABLE modules_for_programs RENAME TO modules;
