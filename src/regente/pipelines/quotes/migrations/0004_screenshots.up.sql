-- Screenshots of the pages that prices were read from. They are stored when a page is read, before
-- the quote has its sources, and belong to the source whose page has the same hash.

CREATE TABLE regente.quote_screenshots (
  quote_id    bigint NOT NULL REFERENCES regente.quotes ON DELETE CASCADE,
  position    integer NOT NULL,
  page_sha256 text NOT NULL,
  png         bytea NOT NULL,
  PRIMARY KEY (quote_id, position)
);
ALTER TABLE regente.quote_screenshots ALTER COLUMN png SET STORAGE EXTERNAL;  -- compressed already
