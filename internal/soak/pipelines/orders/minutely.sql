SELECT
    date_trunc('minute', placed_at)    AS minute,
    count(*)                           AS orders,
    sum(amount)                        AS amount,
    sum(items)                         AS items,
    count(*) FILTER (is_new)           AS new_buyers
FROM silver.orders
GROUP BY date_trunc('minute', placed_at)
