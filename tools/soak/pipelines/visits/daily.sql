SELECT
    time_bucket(INTERVAL 1 DAY, visited_at)    AS day,
    city,
    count(*)                                   AS visits,
    sum(amount)                                AS amount
FROM silver.visits
GROUP BY time_bucket(INTERVAL 1 DAY, visited_at), city
