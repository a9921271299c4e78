-- One row a reading, in Celsius, with the place of its sensor.
SELECT
    sensor_id,
    event_time,
    CASE upper(unit)
        WHEN 'C' THEN temperature
        WHEN 'F' THEN (temperature - 32) * 5 / 9
        WHEN 'K' THEN temperature - 273.15
    END                    AS temperature_celsius,
    locations.city         AS city,
    locations.country      AS country,
    _partition_id,
    _partition_offset
FROM bronze.sensors
LEFT JOIN reference.locations USING (sensor_id)
