-- One row a city and hour. Readings of sensors that have no place yet are
-- together under a city that is NULL.
--
-- The average is taken over decimals, whose sum is exact: so it does not depend
-- on the order in which the rows are read. A reading of a million million degrees
-- fits no such decimal; it is counted, but not averaged.
SELECT
    time_bucket(INTERVAL 1 HOUR, event_time)                          AS hour,
    city,
    country,
    count(*)                                                          AS readings,
    round(avg(TRY_CAST(temperature_celsius AS DECIMAL(18, 6))), 2)    AS avg_temp_c,
    round(min(temperature_celsius), 2)                                AS min_temp_c,
    round(max(temperature_celsius), 2)                                AS max_temp_c
FROM silver.sensors
GROUP BY time_bucket(INTERVAL 1 HOUR, event_time), city, country
