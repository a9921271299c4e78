SELECT
    time_bucket(INTERVAL 1 HOUR, event_time)                  AS hour,
    city,
    country,
    count(*)                                                  AS readings,
    sum(CAST(round(temperature_celsius * 1000) AS BIGINT))    AS millidegrees,
    min(temperature_celsius)                                  AS coldest,
    max(temperature_celsius)                                  AS warmest
FROM silver.readings
GROUP BY time_bucket(INTERVAL 1 HOUR, event_time), city, country
