SELECT
    time_bucket(INTERVAL 1 MINUTE, event_time)    AS minute,
    count(*)                                      AS readings,
    count(DISTINCT sensor_id)                     AS sensors
FROM silver.readings
GROUP BY time_bucket(INTERVAL 1 MINUTE, event_time)
