-- One row a payment, in euros.
SELECT
    payment_id,
    account,
    a.owner                                   AS owner,
    b.city                                    AS city,
    p.branch                                  AS branch,
    currency,
    amount,
    CASE currency
        WHEN 'EUR' THEN amount
        WHEN 'USD' THEN (amount * 0.8)::DECIMAL(12, 2)
    END                                       AS amount_eur,
    paid_at,
    booked,
    items,
    list_sum(list_transform(items, lambda i: i.qty)) AS pieces,
    device,
    device."screen size".w                    AS width,
    note,
    (note->>'text')                           AS text,
    _partition_id,
    _partition_offset
FROM bronze.payments AS p
LEFT JOIN reference.accounts AS a ON p.account = a.number
LEFT JOIN reference.branches AS b ON p.branch = b.branch
