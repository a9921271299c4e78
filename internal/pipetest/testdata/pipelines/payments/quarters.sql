-- One row a quarter of an hour and city, with the share of the quarter.
SELECT
    time_bucket(INTERVAL 15 MINUTE, paid_at)                            AS quarter,
    city,
    count(*)                                                            AS payments,
    sum(pieces)                                                         AS pieces,
    count(*) * 100 // sum(count(*)) OVER (PARTITION BY time_bucket(INTERVAL 15 MINUTE, paid_at)) AS percent
FROM silver.payments
GROUP BY time_bucket(INTERVAL 15 MINUTE, paid_at), city
