-- The demo's reference data, made once. hel-001 is labelled wrongly on purpose:
-- the tour corrects it to Helsinki. A table that exists is left as it is.
DO $seed$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('smelt.seed'));
    IF to_regclass('public.locations') IS NULL THEN
        CREATE TABLE public.locations (
            sensor_id text PRIMARY KEY,
            city      text,
            country   text
        );
        INSERT INTO public.locations (sensor_id, city, country)
        VALUES
            ('hel-001', 'Espoo', 'Finland'),
            ('nyc-001', 'New York', 'United States'),
            ('tyo-001', 'Tokyo', 'Japan');
    END IF;
END
$seed$;
