SELECT
    date_trunc('day', visited_at) AS day,
    city,
    count(*)                      AS visits,
    sum(amount)                   AS amount
FROM silver.visits
GROUP BY date_trunc('day', visited_at), city
