CREATE SCHEMA smelt;
CREATE TABLE IF NOT EXISTS smelt.reference_counter (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version   bigint NOT NULL
);
INSERT INTO smelt.reference_counter (version) VALUES (0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS smelt.reference_tables (
    table_name  text PRIMARY KEY,
    version     bigint NOT NULL,
    changed_at  timestamptz NOT NULL,
    changed_by  xid8 NOT NULL,
    fingerprint text NOT NULL DEFAULT ''
);
CREATE OR REPLACE FUNCTION smelt.reference_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    raised  bigint;
BEGIN
    PERFORM FROM smelt.reference_tables
    WHERE table_name = changed AND changed_by = pg_current_xact_id() AND changed_at = transaction_timestamp();
    IF NOT FOUND THEN
        UPDATE smelt.reference_counter SET version = version + 1 RETURNING version INTO raised;
        INSERT INTO smelt.reference_tables AS t (table_name, version, changed_at, changed_by)
        VALUES (changed, raised, transaction_timestamp(), pg_current_xact_id())
        ON CONFLICT (table_name) DO UPDATE
        SET version = EXCLUDED.version, changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by;
        PERFORM pg_notify('smelt_reference', changed);
    END IF;
    RETURN NULL;
END
$$;
