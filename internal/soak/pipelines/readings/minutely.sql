SELECT
    date_trunc('minute', event_time) AS minute,
    count(*)                         AS readings,
    count(DISTINCT sensor_id)        AS sensors
FROM silver.readings
GROUP BY date_trunc('minute', event_time)
