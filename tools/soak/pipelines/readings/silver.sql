SELECT
    id,
    sensor_id,
    event_time,
    CASE unit
        WHEN 'C' THEN temperature
        WHEN 'F' THEN (temperature - 32) * 5 / 9
    END               AS temperature_celsius,
    locations.city    AS city,
    locations.country AS country,
    _partition_id,
    _partition_offset
FROM bronze.readings
LEFT JOIN reference.locations USING (sensor_id)
