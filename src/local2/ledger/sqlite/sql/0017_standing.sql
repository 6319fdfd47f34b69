-- Standing facts of a place are known without reading the others, those that matter most first.
CREATE INDEX record_keyed ON record (tenant, place, importance)
    WHERE folded_topic IS NOT NULL AND kind = 'fact' AND superseded_by IS NULL;
