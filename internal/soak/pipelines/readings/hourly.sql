SELECT
    date_trunc('hour', event_time)                           AS hour,
    city,
    country,
    count(*)                                                 AS readings,
    sum(CAST(round(temperature_celsius * 1000) AS BIGINT))   AS millidegrees,
    min(temperature_celsius)                                 AS coldest,
    max(temperature_celsius)                                 AS warmest
FROM silver.readings
GROUP BY date_trunc('hour', event_time), city, country
