-- One row a day and currency.
SELECT
    date_trunc('day', paid_at)::DATE    AS day,
    currency,
    count(*)                            AS payments,
    sum(amount)                         AS amount,
    sum(amount_eur)                     AS amount_eur
FROM silver.payments
GROUP BY date_trunc('day', paid_at), currency
