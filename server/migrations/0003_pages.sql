-- What pages show without reading logs.

-- Failures by the hour in which they came. Those of tracked runs that were stored before this table was there are not in it.
CREATE TABLE trend (
    case_number BIGINT NOT NULL REFERENCES cases (number) ON DELETE CASCADE,
    hour BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (case_number, hour)
);
INSERT INTO trend (case_number, hour, failures)
    SELECT case_number, at / 3600, COUNT(*) FROM failures GROUP BY case_number, at / 3600;

-- What a search for words looks through.
ALTER TABLE derived ADD COLUMN words TEXT NOT NULL DEFAULT '';
-- How the search for the cause went, as JSON.
ALTER TABLE derived ADD COLUMN course {bytes};

CREATE INDEX audit_of_bug ON audit (bug);
