SELECT
    time_bucket(INTERVAL 1 MINUTE, placed_at)    AS minute,
    count(*)                                     AS orders,
    sum(amount)                                  AS amount,
    sum(items)                                   AS items,
    count(*) FILTER (is_new)                     AS new_buyers
FROM silver.orders
GROUP BY time_bucket(INTERVAL 1 MINUTE, placed_at)
